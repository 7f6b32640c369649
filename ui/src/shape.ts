// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The dyno authors
//
// Any table as people read it, by what the recording says of its columns: keys first, then values with
// their bounds, then notes; numbers without a unit in that of their row. A key that is the same in all
// rows is in the title.

import type { Cell, Column, Table } from './recording';
import { tableView, type TableOptions } from './table';
import { format } from './units';

/** A column of a table that the page makes itself. */
export const columnOf = (name: string, title: string, unit: string | null = null, help = ''): Column => ({
    name,
    title,
    type: unit === null ? 'string' : 'number',
    unit,
    help,
});

/** A table that this page has no code for. */
export function anyTable(table: Table, options: TableOptions): HTMLElement {
    const { columns, rows } = table;
    const withRole = (role: string) => columns.filter((c) => c.role === role);
    const bounds = (value: Column) =>
        columns.filter((c) => ['low', 'high'].includes(c.role ?? '') && c.of === value.name);
    const chosen = [
        ...withRole('key'),
        ...withRole('value').flatMap((c) => [c, ...bounds(c)]),
        ...withRole('note'),
    ];
    // Columns of roles that are not known stay at the end.
    const all = [...chosen, ...columns.filter((c) => !chosen.includes(c))];
    const keys = withRole('key');
    const same = (c: Column) => {
        const values = new Set(rows.map((row) => row[columns.indexOf(c)]));
        return keys.length > 1 && rows.length > 0 && values.size === 1 && c !== keys.at(-1);
    };
    const shared = keys.filter(same);
    const title = [
        options.heading ?? table.title,
        ...shared.map((c) => rows[0]![columns.indexOf(c)]),
    ]
        .filter((part) => part !== null && part !== undefined)
        .join(', ');
    const ofRow = columns.some((c) => c.name === 'unit');
    const shown = reordered(
        table,
        all.filter((c) => c.name !== 'unit' && !shared.includes(c)).map((c) => c.name),
    );
    const unitless = columns.filter((c) => c.unit === null).map((c) => c.name);
    const show = ofRow ? inUnits(table, unitless, shown) : {};
    return tableView(shown, { ...options, heading: title, show: { ...show, ...options.show } });
}

/** These columns of a table, in this order; those it has. */
export function reordered(table: Table, names: string[]): Table {
    const kept = names.map((name) => place(table, name)).filter((i) => i >= 0);
    return {
        ...table,
        columns: kept.map((i) => table.columns[i]!),
        rows: table.rows.map((row) => kept.map((i) => row[i] ?? null)),
    };
}

/** Columns whose values are each in the unit that the row says. */
export function inUnits(
    table: Table,
    names: string[],
    shown = table,
): Record<string, (value: number, row: Cell[]) => string> {
    const unit = place(table, 'unit');
    const of = new Map(shown.rows.map((row, i) => [row, String(table.rows[i]?.[unit] ?? '1')]));
    const show = (value: number, row: Cell[]) => format(value, of.get(row) ?? '1');
    return Object.fromEntries(names.map((name) => [name, show]));
}

const place = (table: Table, name: string) => table.columns.findIndex((c) => c.name === name);
