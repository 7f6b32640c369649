// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The dyno authors
//
// The cells of a table, and its rows: all of them, or where they are thousands, those that are in
// sight of a table that scrolls.

import { h, type Child } from './dom';
import type { Cell, Column } from './recording';
import { format, raw } from './units';

/** A text longer than this is one to be read, over several lines. */
const longText = 40;
/** Smaller shares are not worth their digits. */
const leastShare = 0.0001;
/** From this many rows on, only those in sight are elements. */
export const windowedFrom = 400;
/** Rows beyond what is in sight, so that scrolling shows no gap. */
const beyond = 12;

export interface CellOptions {
    /** How the numbers of a column are shown, where its unit does not say. */
    show?: Record<string, (value: number, row: Cell[]) => string>;
    /** What a click on a name of a column opens; null where there is nothing more to see. */
    open?: Record<string, (name: string) => (() => void) | null>;
}

export function isNumber(column: Column): boolean {
    return column.type === 'integer' || column.type === 'number';
}

export function bodyRow(columns: Column[], row: Cell[], options: CellOptions): HTMLElement {
    return h(
        'tr',
        {},
        ...columns.map((column, index) => bodyCell(column, index, row, options)),
    );
}

function bodyCell(
    column: Column,
    index: number,
    row: Cell[],
    { show, open }: CellOptions,
): HTMLElement {
    const value = row[index] ?? null;
    const shown = show?.[column.name];
    if (index === 0) {
        const kind = isNumber(column) ? 'number' : undefined;
        const opened = typeof value === 'string' ? open?.[column.name]?.(value) : null;
        return h(
            'th',
            { scope: 'row', class: kind },
            ...(opened ? [linked(String(value), opened)] : text(column, value)),
        );
    }
    if (value === null) {
        const kind = isNumber(column) ? 'number null' : 'null';
        return h('td', { class: kind, title: 'not known' }, '–');
    }
    if (typeof value !== 'number') {
        const opened = open?.[column.name]?.(String(value));
        const long = String(value).length > longText ? 'words' : undefined;
        const kind = isNumber(column) ? 'number' : long;
        return h(
            'td',
            { class: kind },
            ...(opened ? [linked(String(value), opened)] : text(column, value)),
        );
    }
    const title = raw(value, column.unit);
    const words = shown?.(value, row);
    // An imprecise share has no bar.
    if (words !== undefined && !(column.name === 'share' && /^\d/.test(words)))
        return h('td', { class: 'number', title }, words);
    return column.name === 'share' || column.unit === 'ratio'
        ? shareCell(column, value, title)
        : h('td', { class: 'number', title }, format(value, column.unit));
}

function linked(name: string, opened: () => void): HTMLElement {
    return h(
        'button',
        { type: 'button', class: 'name', 'aria-haspopup': 'dialog', onClick: opened },
        ...breakable(name),
    );
}

function shareCell(column: Column, value: number, title: string): HTMLElement {
    const small = value > 0 && value < leastShare;
    const shown = small ? `< ${format(leastShare, column.unit)}` : format(value, column.unit);
    if (column.name !== 'share') return h('td', { class: 'number', title }, shown);
    const bar = h('span', { class: 'bar', 'aria-hidden': 'true' }, h('span'));
    (bar.firstElementChild as HTMLElement).style.width = `${Math.max(0, Math.min(1, value)) * 100}%`;
    return h('td', { class: 'number share', title }, bar, h('span', {}, shown));
}

function text(column: Column, value: Cell): Child[] {
    if (value === null) return ['–'];
    if (typeof value === 'number') return [format(value, column.unit)];
    return breakable(worded(column, String(value)));
}

/** What the console calls a verdict. */
export function verdictWords(verdict: unknown): string {
    const words: Record<string, string> = { undecided: 'not decided', one_run: 'one run' };
    return words[String(verdict)] ?? String(verdict ?? '');
}

/** What a program calls a kind, in words. */
export function worded(column: Column, value: string): string {
    if (column.name === 'verdict') return verdictWords(value);
    return column.name === 'kind' && column.title !== 'Kind' ? value.replace(/_/g, ' ') : value;
}

/**
 * A name that may go on in the next line where its parts end: behind a module, and only in a very long
 * one elsewhere. A number stays with its unit.
 */
export function breakable(name: string): Child[] {
    const together = name.replace(/(\d) (?=[%a-zA-Z])|([<>=]) (?=\d)/g, '$1$2\u00a0');
    const parts = together
        .split(/(?<=[\w)\]}'][:,]+|[a-zA-Z]\.)(?=[a-zA-Z_'({[])/)
        .flatMap((part) => (part.length > 22 ? part.split(/(?<=\w_)(?=[a-z])/) : [part]));
    return parts.flatMap((part, i) => (i === 0 ? [part] : [h('wbr'), part]));
}

/** Thousands of rows: the table scrolls, and only what is in sight is there. */
export class Window {
    private rows: Cell[][] = [];
    private first = -1;
    private height = 0;
    private scheduled = false;

    constructor(
        private readonly scroll: HTMLElement,
        private readonly body: HTMLElement,
        private readonly row: (row: Cell[]) => HTMLElement,
    ) {
        scroll.addEventListener('scroll', () => this.soon());
        // On paper nothing scrolls: the part that is in sight is printed, with its sentence.
    }

    get table(): HTMLElement {
        return this.body.parentElement!;
    }

    /** Shows these rows from their beginning. */
    show(rows: Cell[][]): void {
        this.rows = rows;
        this.first = -1;
        this.scroll.classList.add('windowed');
        this.scroll.scrollTop = 0;
        this.table.setAttribute('aria-rowcount', String(rows.length + 1));
        this.draw();
    }

    /** All rows are there again. */
    leave(): void {
        if (!this.scroll.classList.contains('windowed')) return;
        this.scroll.classList.remove('windowed');
        this.table.removeAttribute('aria-rowcount');
        this.rows = [];
        for (const head of this.heads()) head.style.width = '';
    }

    private heads(): HTMLElement[] {
        return [...this.table.querySelectorAll<HTMLElement>('thead th')];
    }

    private soon(): void {
        if (this.scheduled || this.rows.length === 0) return;
        this.scheduled = true;
        requestAnimationFrame(() => {
            this.scheduled = false;
            this.draw();
        });
    }

    private draw(): void {
        const { scroll, rows } = this;
        if (this.height === 0 && rows.length > 0) this.measure();
        const height = this.height || 30;
        const inSight = Math.ceil((scroll.clientHeight || 600) / height);
        const start = Math.max(0, Math.floor(scroll.scrollTop / height) - beyond);
        const first = Math.min(start, Math.max(0, rows.length - inSight));
        if (first === this.first) return;
        this.first = first;
        const last = Math.min(rows.length, first + inSight + 2 * beyond);
        const elements = rows.slice(first, last).map((row, i) => {
            const element = this.row(row);
            // The first row is the head's.
            element.setAttribute('aria-rowindex', String(first + i + 2));
            return element;
        });
        this.body.replaceChildren(
            spacer(first * height),
            ...elements,
            spacer((rows.length - last) * height),
        );
    }

    /** One height for all rows, and columns that keep their width whatever rows are in sight. */
    private measure(): void {
        this.body.replaceChildren(...this.rows.slice(0, 30).map(this.row));
        const heads = this.heads();
        const widths = heads.map((head) => head.getBoundingClientRect().width);
        heads.forEach((head, i) => (head.style.width = `${widths[i]}px`));
        this.height = this.body.firstElementChild?.getBoundingClientRect().height ?? 0;
    }
}

function spacer(height: number): HTMLElement {
    const row = h('tr', { class: 'spacer', 'aria-hidden': 'true' });
    row.style.height = `${height}px`;
    return row;
}
