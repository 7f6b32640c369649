// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The dyno authors
//
// One table: sorted by any column, searched, filtered, copied, with only as many rows in the page as
// the reader asked for, so that thousands of rows cost nothing until they are wanted.

import { absent, dropdown, h } from './dom';
import type { Cell, Column, Table } from './recording';
import { bodyRow, isNumber, Window, windowedFrom, worded, type CellOptions } from './tablecells';
import { choose, chosen } from './state';
import { exportButtons } from './tableexport';
import { grouped, unitHint } from './units';

const firstRows = 25;
/** A table this short needs neither a search field nor filters. */
const searchable = 8;
/** A column of names with so few of them is one to filter by. */
const mostChoices = 8;

interface View {
    sort: string | null;
    descending: boolean;
    search: string;
    filters: Record<string, string>;
    all: boolean;
}

/** What the reader chose, by table, so that it survives a change of the run. */
const views = new Map<string, View>();

export interface TableOptions extends CellOptions {
    /** Column to sort by at first, largest first. */
    sortBy?: string;
    /** Said where the table has no rows. */
    empty: string;
    heading?: string;
}

export function tableView(table: Table, options: TableOptions): HTMLElement {
    const caption = options.heading ?? table.title;
    const frame = h('div', { class: 'table', 'data-table': table.name });
    if (table.rows.length === 0 || table.columns.length === 0) {
        frame.append(h('h3', {}, caption), absent(options.empty));
        return frame;
    }
    const view = viewOf(table, options);
    const body = h('tbody');
    const count = h('span', { class: 'count', role: 'status' });
    const more = h('p', { class: 'more' });
    const sort = () => {
        choose(`sort.${table.name}`, `${view.sort}${view.descending ? '' : ',up'}`);
        draw();
    };
    const heads = table.columns.map((c) => headCell(c, view, () => sort()));
    const scroll = h(
        'div',
        { class: 'scroll', tabindex: 0, role: 'region', 'aria-label': caption },
        h('table', {}, h('thead', {}, h('tr', {}, ...heads.map((head) => head.cell))), body),
    );
    const row = (cells: Cell[]) => bodyRow(table.columns, cells, options);
    const windowed = new Window(scroll, body, row);
    let rows: Cell[][] = [];
    const draw = () => {
        rows = sorted(table, filtered(table, view), view);
        heads.forEach((head) => head.show());
        if (view.all && rows.length >= windowedFrom && scroll.isConnected) windowed.show(rows);
        else {
            windowed.leave();
            const shown = rows.slice(0, view.all ? windowedFrom : firstRows);
            body.replaceChildren(...shown.map(row));
        }
        count.textContent = countText(table, rows.length);
        more.replaceChildren(...moreButtons(rows.length, view, draw));
    };
    draw();
    // A table that scrolls can only be measured once it is on the page.
    if (view.all) requestAnimationFrame(draw);
    frame.append(
        h(
            'div',
            { class: 'tablehead' },
            h('h3', {}, caption),
            count,
            h('span', { class: 'tools' }, ...tools(table, view, draw, () => rows)),
        ),
        scroll,
        more,
    );
    if (table.truncated > 0) {
        frame.append(
            absent(`${grouped(table.truncated)} more rows were left out of the recording.`),
        );
    }
    return frame;
}

function tools(
    table: Table,
    view: View,
    draw: () => void,
    rows: () => Cell[][],
): (HTMLElement | null)[] {
    const long = table.rows.length > searchable;
    return [
        ...(long ? filters(table, view, draw) : []),
        long ? searchField(table, view, draw) : null,
        exportButtons(table, rows),
    ];
}

/** A choice for each column that has only a few different names. */
function filters(table: Table, view: View, draw: () => void): HTMLElement[] {
    return table.columns.flatMap((column, index) => {
        if (isNumber(column) || index === 0) return [];
        const names = new Set<string>();
        for (const row of table.rows) {
            if (row[index] !== null && row[index] !== undefined) names.add(String(row[index]));
            if (names.size > mostChoices) return [];
        }
        if (names.size < 2) {
            delete view.filters[column.name];
            return [];
        }
        const now = view.filters[column.name] ?? '';
        const options = [...names].sort(collator.compare).map((name): [string, string] => [name, worded(column, name)]);
        const pick = (value: string) => {
            view.filters[column.name] = value;
            draw();
        };
        const attributes = { 'aria-label': `${column.title} in ${table.title}`, 'data-filter': column.name };
        return [dropdown(attributes, [['', `${column.title}: all`], ...options], now, pick)];
    });
}

function viewOf(table: Table, options: TableOptions): View {
    const key = `${table.name}/${table.node ?? ''}`;
    const known = views.get(key);
    if (known) return known;
    const isColumn = (name: string | undefined) => table.columns.some((c) => c.name === name);
    const by = isColumn(options.sortBy) ? options.sortBy! : null;
    const { column, descending } = table.sort ?? { column: null, descending: true };
    const [linked, order] = (chosen(`sort.${table.name}`) ?? '').split(',');
    const view = {
        sort: isColumn(linked) ? linked! : (by ?? column),
        descending: isColumn(linked) ? order !== 'up' : by !== null || descending,
        search: '',
        filters: {},
        all: false,
    };
    views.set(key, view);
    return view;
}

function filtered(table: Table, { search, filters }: View): Cell[][] {
    const wanted = Object.entries(filters)
        .filter(([, value]) => value !== '')
        .map(([name, value]) => ({ at: table.columns.findIndex((c) => c.name === name), value }))
        .filter(({ at }) => at >= 0);
    const words = search
        .toLowerCase()
        .split(/\s+/)
        .filter((w) => w !== '');
    if (words.length === 0 && wanted.length === 0) return table.rows;
    const texts = table.columns.map((c, i) => (isNumber(c) ? -1 : i)).filter((i) => i >= 0);
    return table.rows.filter((row) => {
        if (wanted.some(({ at, value }) => String(row[at] ?? '') !== value)) return false;
        const all = texts
            .map((i) => String(row[i] ?? ''))
            .join('\n')
            .toLowerCase();
        return words.every((word) => all.includes(word));
    });
}

function sorted(table: Table, rows: Cell[][], view: View): Cell[][] {
    const index = table.columns.findIndex((c) => c.name === view.sort);
    if (index < 0) return rows;
    const direction = view.descending ? -1 : 1;
    return [...rows].sort((a, b) => compare(a[index] ?? null, b[index] ?? null, direction));
}

const collator = new Intl.Collator('en', { numeric: true });

/** Unknown values come last whichever way the column is sorted. */
function compare(a: Cell, b: Cell, direction: number): number {
    if (a === null || b === null) return Number(a === null) - Number(b === null);
    if (typeof a === 'number' && typeof b === 'number') return (a - b) * direction;
    return collator.compare(String(a), String(b)) * direction;
}

function headCell(
    column: Column,
    view: View,
    draw: () => void,
): { cell: HTMLElement; show: () => void } {
    const hint = unitHint(column.unit);
    const arrow = h('span', { class: 'arrow', 'aria-hidden': 'true' });
    const sort = () => {
        // Numbers are mostly looked for at the top, names from A.
        view.descending = view.sort === column.name ? !view.descending : isNumber(column);
        view.sort = column.name;
        draw();
    };
    const title = [column.help, hint && `Recorded in ${hint}.`].filter(Boolean).join(' ');
    const button = h(
        'button',
        {
            type: 'button',
            title: title || undefined,
            'data-column': column.name,
            onClick: sort,
        },
        column.title,
        arrow,
    );
    const cell = h('th', { scope: 'col', class: isNumber(column) ? 'number' : undefined }, button);
    const show = () => {
        const active = view.sort === column.name;
        const order = view.descending ? 'descending' : 'ascending';
        cell.setAttribute('aria-sort', active ? order : 'none');
        arrow.textContent = active ? (view.descending ? '↓' : '↑') : '';
    };
    return { cell, show };
}

function countText(table: Table, found: number): string {
    const all = table.rows.length;
    return found === all
        ? `${grouped(all)} ${all === 1 ? 'row' : 'rows'}`
        : `${grouped(found)} of ${grouped(all)} rows`;
}

function moreButtons(found: number, view: View, draw: () => void): HTMLElement[] {
    if (found <= firstRows) return [];
    const label = view.all ? `Show the first ${firstRows}` : `Show all ${grouped(found)}`;
    const toggle = () => {
        view.all = !view.all;
        draw();
    };
    return [h('button', { type: 'button', onClick: toggle }, label)];
}

function searchField(table: Table, view: View, draw: () => void): HTMLElement {
    const input = h('input', {
        type: 'search',
        placeholder: 'Search',
        'aria-label': `Search in ${table.title}`,
        value: view.search,
    });
    input.addEventListener('input', () => {
        view.search = input.value;
        draw();
    });
    return input;
}
