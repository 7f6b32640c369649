// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The dyno authors
//
// A table for other programs: as CSV in a file, or on the clipboard for a spreadsheet. Values are
// those of the recording, with the unit in the head.

import { h } from './dom';
import type { Cell, Column, Table } from './recording';

/** A spreadsheet would run a text that begins like this as a formula. */
const formula = /^[=+\-@\t\r]/;

function plain(value: Cell): string {
    if (value === null) return '';
    return typeof value === 'string' && formula.test(value) ? `'${value}` : String(value);
}

function head({ name, unit }: Column): string {
    return unit === null || unit === '1' ? name : `${name} (${unit})`;
}

/** RFC 4180: CRLF, quotes doubled. */
export function csv(table: Table, rows: Cell[][]): string {
    const field = (text: string) => (/[",\r\n]/.test(text) ? `"${text.replace(/"/g, '""')}"` : text);
    return [table.columns.map(head), ...rows.map((row) => row.map(plain))]
        .map((line) => `${line.map(field).join(',')}\r\n`)
        .join('');
}

/** Tabs and new lines part cells and rows, so they cannot stand inside one. */
export function tabbed(table: Table, rows: Cell[][]): string {
    const field = (text: string) => text.replace(/[\t\r\n]+/g, ' ');
    return [table.columns.map(head), ...rows.map((row) => row.map(plain))]
        .map((line) => line.map(field).join('\t'))
        .join('\n');
}

async function copy(text: string): Promise<boolean> {
    try {
        await navigator.clipboard.writeText(text);
        return true;
    } catch {
        // Not every browser gives pages from a disk the clipboard.
        const area = h('textarea', { 'aria-hidden': 'true', class: 'offstage' });
        area.value = text;
        document.body.append(area);
        area.select();
        const done = document.execCommand('copy');
        area.remove();
        return done;
    }
}

function save(name: string, text: string): void {
    // The mark at the start tells spreadsheets that it is UTF-8.
    const url = URL.createObjectURL(new Blob(['\ufeff', text], { type: 'text/csv' }));
    const link = h('a', { href: url, download: `${name.replace(/[^\w.-]+/g, '-')}.csv` });
    link.click();
    setTimeout(() => URL.revokeObjectURL(url), 1000);
}

/** Buttons for the rows that a search has left, in the order in which they are shown. */
export function exportButtons(table: Table, rows: () => Cell[][]): HTMLElement {
    const copied = h('button', { type: 'button', title: 'Copy all found rows, for a spreadsheet' });
    copied.textContent = 'Copy';
    copied.addEventListener('click', async () => {
        const done = await copy(tabbed(table, rows()));
        copied.textContent = done ? 'Copied' : 'Not allowed';
        setTimeout(() => (copied.textContent = 'Copy'), 1500);
    });
    const saved = h('button', { type: 'button', title: 'Save all found rows as a CSV file' }, 'CSV');
    saved.addEventListener('click', () => save(table.name, csv(table, rows())));
    return h('span', { class: 'export' }, copied, saved);
}
