// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The dyno authors
//
// The functions' table as people read it: what a time may be off by stands behind it, what was hardly met,
// or cannot be told, is less than the end of its interval, and calls say whether they are counted.

import { objects, type Cell, type Table } from './recording';
import { reordered } from './shape';
import { format } from './units';

/** A value whose interval is wider than so much of it is shown as less than the interval's end. */
const WIDE = 0.5;

/** Larger shares may be all. */
const ALL = 0.995;

type Show = (value: number, row: Cell[]) => string;

/** Without the columns of bounds, whose values are in the cells now. */
export function withBounds(table: Table): { table: Table; show: Record<string, Show> } {
    const { columns } = table;
    const rows = objects(table);
    const bound = (of: string, role: string) =>
        columns.find((c) => c.role === role && c.of === of)?.name ?? '';
    const kept = columns.filter((c) => !['low', 'high'].includes(c.role ?? ''));
    const shown = reordered(
        table,
        kept.filter((c) => c.name !== 'counted').map((c) => c.name),
    );
    const calls = shown.columns.findIndex((c) => c.name === 'calls');
    shown.rows.forEach((row, i) => {
        if (rows[i]!.counted === 'not counted') row[calls] = 'not counted';
    });
    const whole = new Map(shown.rows.map((row, i) => [row, rows[i]!]));
    const cell = (name: string, unit: string | null): Show => {
        const [low, high] = [bound(name, 'low'), bound(name, 'high')];
        return (value, row) => {
            const of = whole.get(row) ?? {};
            const [from, to] = [of[low], of[high]];
            const told = format(value, unit);
            if (name === 'calls') {
                const sign = { estimated: '~', 'at least': '>= ' }[String(of.counted)] ?? '';
                return sign + told;
            }
            if (typeof from !== 'number' || typeof to !== 'number') return told;
            const wide = of.note || to - from > WIDE * value;
            if (wide && unit === 'ratio') return share(from, to);
            if (to > 0 && wide) return `< ${format(to, unit)}`;
            const off = Math.ceil((100 * (to - from)) / 2 / value);
            // Of a share in points.
            if (name === 'own') return `${told} ± ${(Math.ceil(500 * (to - from)) / 10).toFixed(1)}`;
            return name === 'own_time' && to > from ? `${told} ± ${off} %` : told;
        };
    };
    const told = kept.filter((c) => c.name === 'calls' || bound(c.name, 'low') !== '');
    const show = Object.fromEntries(told.map((c) => [c.name, cell(c.name, c.unit)]));
    return { table: shown, show };
}

/** A share of a wide interval by its only telling end. */
function share(from: number, to: number): string {
    if (to < ALL) return `< ${format(to, 'ratio')}`;
    return from > 1 - ALL ? `> ${format(from, 'ratio')}` : '–';
}
