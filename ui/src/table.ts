// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The dyno authors
//
// One table: sorted by any column, searched, with only as many rows in the page as the reader
// asked for, so that thousands of rows cost nothing until they are wanted.

import { absent, h, type Child } from './dom';
import type { Cell, Column, Table } from './recording';
import { format, grouped, raw, unitHint } from './units';

const firstRows = 25;
const moreRows = 500;
/** Smaller shares are not worth their digits. */
const leastShare = 0.0001;
/** A table this short needs no search field. */
const searchable = 8;

interface View {
    sort: string | null;
    descending: boolean;
    search: string;
    shown: number;
}

/** What the reader chose, by table, so that it survives a change of the run. */
const views = new Map<string, View>();

export interface TableOptions {
    /** Column to sort by at first, largest first. */
    sortBy?: string;
    /** Said where the table has no rows. */
    empty: string;
    heading?: string;
    /** How the numbers of a column are shown, where its unit does not say. */
    show?: Record<string, (value: number, row: Cell[]) => string>;
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
    const heads = table.columns.map((c) => headCell(c, view, () => draw()));
    const draw = () => {
        const rows = sorted(table, filtered(table, view.search), view);
        heads.forEach((head) => head.show());
        body.replaceChildren(
            ...rows.slice(0, view.shown).map((row) => bodyRow(table.columns, row, options)),
        );
        count.textContent = countText(table, rows.length);
        more.replaceChildren(...moreButtons(rows.length, view, draw));
    };
    draw();
    const search = table.rows.length > searchable ? searchField(table, view, draw) : null;
    frame.append(
        h('div', { class: 'tablehead' }, h('h3', {}, caption), count, search ?? ''),
        h(
            'div',
            { class: 'scroll', tabindex: 0, role: 'region', 'aria-label': caption },
            h('table', {}, h('thead', {}, h('tr', {}, ...heads.map((head) => head.cell))), body),
        ),
        more,
    );
    if (table.truncated > 0) {
        frame.append(
            absent(`${grouped(table.truncated)} more rows were left out of the recording.`),
        );
    }
    return frame;
}

function viewOf(table: Table, options: TableOptions): View {
    const key = `${table.name}/${table.node ?? ''}`;
    const known = views.get(key);
    if (known) return known;
    const by = table.columns.some((c) => c.name === options.sortBy) ? options.sortBy! : null;
    const view = { sort: by, descending: true, search: '', shown: firstRows };
    views.set(key, view);
    return view;
}

function filtered(table: Table, search: string): Cell[][] {
    const words = search
        .toLowerCase()
        .split(/\s+/)
        .filter((w) => w !== '');
    if (words.length === 0) return table.rows;
    const texts = table.columns.map((c, i) => (isNumber(c) ? -1 : i)).filter((i) => i >= 0);
    return table.rows.filter((row) => {
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

/** Unknown values come last whichever way the column is sorted. */
function compare(a: Cell, b: Cell, direction: number): number {
    if (a === null || b === null) return Number(a === null) - Number(b === null);
    if (typeof a === 'number' && typeof b === 'number') return (a - b) * direction;
    return String(a).localeCompare(String(b), 'en', { numeric: true }) * direction;
}

function isNumber(column: Column): boolean {
    return column.type === 'integer' || column.type === 'number';
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

function bodyRow(columns: Column[], row: Cell[], { show }: TableOptions): HTMLElement {
    return h(
        'tr',
        {},
        ...columns.map((column, index) => {
            const value = row[index] ?? null;
            const shown = show?.[column.name];
            if (shown && typeof value === 'number') {
                return h('td', { class: 'number', title: raw(value, column.unit) }, shown(value, row));
            }
            return index === 0
                ? h('th', { scope: 'row' }, cellText(column, value))
                : bodyCell(column, value);
        }),
    );
}

function bodyCell(column: Column, value: Cell): HTMLElement {
    if (value === null)
        return h(
            'td',
            { class: isNumber(column) ? 'number null' : 'null', title: 'not known' },
            '–',
        );
    if (typeof value !== 'number') return h('td', {}, cellText(column, value));
    const cell = h('td', { class: 'number', title: raw(value, column.unit) });
    const small = column.name === 'share' && value > 0 && value < leastShare;
    cell.append(
        h('span', {}, small ? `< ${format(leastShare, column.unit)}` : format(value, column.unit)),
    );
    if (column.name === 'share') {
        const bar = h('span', { class: 'bar', 'aria-hidden': 'true' }, h('span'));
        (bar.firstElementChild as HTMLElement).style.width =
            `${Math.max(0, Math.min(1, value)) * 100}%`;
        cell.prepend(bar);
        cell.classList.add('share');
    }
    return cell;
}

function cellText(column: Column, value: Cell): Child {
    if (value === null) return '–';
    if (typeof value === 'number') return format(value, column.unit);
    return String(value);
}

function countText(table: Table, found: number): string {
    const all = table.rows.length;
    return found === all
        ? `${grouped(all)} ${all === 1 ? 'row' : 'rows'}`
        : `${grouped(found)} of ${grouped(all)} rows`;
}

function moreButtons(found: number, view: View, draw: () => void): HTMLElement[] {
    const left = found - view.shown;
    if (left <= 0) return [];
    const show = (rows: number, label: string) =>
        h(
            'button',
            {
                type: 'button',
                onClick: () => {
                    view.shown += rows;
                    draw();
                },
            },
            label,
        );
    const some = left > moreRows ? [show(moreRows, `Show ${moreRows} more`)] : [];
    return [...some, show(left, `Show all ${grouped(found)}`)];
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
        view.shown = firstRows;
        draw();
    });
    return input;
}
