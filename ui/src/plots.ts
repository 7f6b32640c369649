// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The dyno authors
//
// Plots whose rows are names: ratios with their intervals, distributions, parts of a whole. They are
// tables with one column drawn, so they follow the theme, print, and read well aloud.

import { framed, h, type Child } from './dom';
import { logTicks } from './logaxis';
import { lineVariable } from './palette';
import { tick } from './units';

export interface Axis {
    low: number;
    high: number;
    log: boolean;
}

/** An axis that has room for all these values. */
export function axisFor(values: number[], log: boolean): Axis {
    const known = values.filter((v) => Number.isFinite(v) && (!log || v > 0));
    if (known.length === 0) return { low: log ? 0.5 : 0, high: 2, log };
    const low = known.reduce((a, b) => Math.min(a, b));
    const high = known.reduce((a, b) => Math.max(a, b));
    if (log) {
        const room = Math.max(1.02, (high / low) ** 0.05);
        return { low: low / room, high: high * room, log };
    }
    const room = (high - low) * 0.05 || Math.abs(high) * 0.05 || 1;
    return { low: low - room, high: high + room, log };
}

/** Where a value is, in percent of the axis. */
export function place({ low, high, log }: Axis, value: number): number {
    const at = log
        ? (Math.log(Math.max(value, Number.MIN_VALUE)) - Math.log(low)) /
          (Math.log(high) - Math.log(low))
        : (value - low) / (high - low);
    return Math.max(0, Math.min(100, at * 100));
}

function ticks(axis: Axis): number[] {
    const { low, high, log } = axis;
    if (log && high / low > 3) return spaced(axis, logTicks(low, high));
    const step = [1, 2, 5, 10]
        .map((n) => n * 10 ** Math.floor(Math.log10((high - low) / 4)))
        .find((s) => (high - low) / s <= 5)!;
    const first = Math.ceil(low / step);
    const last = Math.floor(high / step);
    // Rounded: 3 * 0.1 is not 0.3.
    const all = Array.from({ length: last - first + 1 }, (_, i) => (first + i) * step);
    return spaced(axis, all.map((v) => Number(v.toPrecision(12))));
}

/** Labels need room: those too near to the one before are left out. */
function spaced(axis: Axis, all: number[]): number[] {
    let before = -100;
    return all.filter((value) => {
        const at = place(axis, value);
        if (at - before < 24 || at < 3 || at > 97) return false;
        before = at;
        return true;
    });
}

/** Something at a place of a track; a width makes it a bar. */
function mark(kind: string, axis: Axis, from: number, to?: number): HTMLElement {
    const element = h('i', { class: kind });
    element.style.left = `${place(axis, from)}%`;
    if (to !== undefined)
        element.style.width = `${Math.max(0.3, place(axis, to) - place(axis, from))}%`;
    return element;
}

function axisCell(axis: Axis, label: string, show: (value: number) => string): HTMLElement {
    const labels = ticks(axis).map((value) => {
        const element = mark('tick', axis, value);
        element.textContent = show(value);
        return element;
    });
    return h(
        'th',
        { scope: 'col', class: 'track-cell' },
        h('span', { class: 'track-title' }, label),
        h('div', { class: 'track axis', 'aria-hidden': 'true' }, ...labels),
    );
}

const frame = (label: string, kind: string, head: Child[], rows: Child[]) =>
    framed(label, `plot-table ${kind}`, head, rows);

const heads = (names: string[]) =>
    names.map((name) => h('th', { scope: 'col', class: 'number' }, name));

export interface ForestRow {
    label: Child;
    value: number | null;
    low: number | null;
    high: number | null;
    /** Texts of the columns after the plot. */
    cells: string[];
    words: string;
    tone: 'good' | 'bad' | 'plain' | 'open';
    /** What the others are compared with: 1 by definition. */
    reference?: boolean;
}

export interface Forest {
    label: string;
    names: string[];
    rows: ForestRow[];
    /** Ratios between these do not matter. */
    band: [number, number];
}

/** Ratios with their intervals on one log axis; 1 is no difference. */
export function forest({ label, names, rows, band }: Forest): HTMLElement {
    const positive = (v: number | null): v is number => v !== null && v > 0;
    const points = rows.map((r) => r.value).filter(positive);
    // An interval of a thousandfold must not hide all others.
    const least = points.reduce((a, b) => Math.min(a, b), 1) / 4;
    const most = points.reduce((a, b) => Math.max(a, b), 1) * 4;
    const known = rows
        .flatMap((r) => [r.value, r.low, r.high])
        .filter(positive)
        .map((v) => Math.min(most, Math.max(least, v)));
    const axis = axisFor([...known, band[0] / 1.01, band[1] * 1.01], true);
    const [first = '', ...others] = names;
    return frame(
        label,
        'forest',
        [
            h('th', { scope: 'col' }, first),
            axisCell(axis, 'Ratio', (v) => `${tick(v, '1')}×`),
            ...heads(others.slice(0, -1)),
            h('th', { scope: 'col' }, others.at(-1) ?? ''),
        ],
        rows.map((row) => {
            const { value, low, high } = row;
            const interval = low !== null && high !== null && low > 0;
            const drawn = [
                mark('band', axis, band[0], band[1]),
                mark('one', axis, 1),
                interval ? mark('interval', axis, low, high) : null,
                value !== null && value > 0
                    ? mark(interval || row.reference ? 'point' : 'point alone', axis, value)
                    : null,
            ];
            return h(
                'tr',
                { class: row.tone },
                h('th', { scope: 'row' }, row.label),
                h('td', { class: 'track-cell' }, h('div', { class: 'track' }, ...drawn)),
                ...row.cells.map((c) => h('td', { class: 'number' }, c)),
                h('td', { class: 'words' }, row.words),
            );
        }),
    );
}

export interface StripRow {
    label: Child;
    values: number[];
    median: number | null;
    low: number | null;
    high: number | null;
    cells: string[];
    /** Which line colour. */
    colour: number;
}

/** More values than this are drawn as a histogram. */
const mostDots = 150;
const bins = 60;

/** Each row's values on one axis, with a box around their middle half, their median and its interval. */
export function strips(
    label: string,
    axisLabel: string,
    names: string[],
    axis: Axis,
    unit: (value: number) => string,
    rows: StripRow[],
): HTMLElement {
    const [first = '', ...others] = names;
    return frame(
        label,
        'strips',
        [h('th', { scope: 'col' }, first), axisCell(axis, axisLabel, unit), ...heads(others)],
        rows.map((row) => {
            const track = h('div', { class: 'track tall' });
            track.style.color = lineVariable(row.colour);
            const sorted = [...row.values].sort((a, b) => a - b);
            const quarter = (n: number) => sorted[Math.round((n / 4) * (sorted.length - 1))]!;
            track.append(
                ...(sorted.length > 3 ? [mark('box', axis, quarter(1), quarter(3))] : []),
                ...(row.values.length > mostDots ? columns : dots)(axis, sorted),
                ...(row.low !== null && row.high !== null
                    ? [mark('interval', axis, row.low, row.high)]
                    : []),
                ...(row.median === null ? [] : [mark('median', axis, row.median)]),
            );
            return h(
                'tr',
                {},
                h('th', { scope: 'row' }, row.label),
                h('td', { class: 'track-cell' }, track),
                ...row.cells.map((c) => h('td', { class: 'number' }, c)),
            );
        }),
    );
}

/** Values so near that their dots would cover each other are piled up. */
function dots(axis: Axis, values: number[]): HTMLElement[] {
    const piles = new Map<number, number>();
    return values.map((value) => {
        const bin = Math.round(place(axis, value) / 1.2);
        const height = piles.get(bin) ?? 0;
        piles.set(bin, height + 1);
        const dot = mark('dot', axis, value);
        dot.style.bottom = `${8 + Math.min(height * 4, 26)}px`;
        return dot;
    });
}

function columns(axis: Axis, values: number[]): HTMLElement[] {
    const counts = new Array<number>(bins).fill(0);
    for (const value of values) {
        const bin = Math.min(bins - 1, Math.floor((place(axis, value) / 100) * bins));
        counts[bin] = counts[bin]! + 1;
    }
    const most = counts.reduce((a, b) => Math.max(a, b), 1);
    return counts.flatMap((count, bin) => {
        if (count === 0) return [];
        const element = h('i', { class: 'column' });
        element.style.left = `${(bin / bins) * 100}%`;
        element.style.width = `${100 / bins}%`;
        element.style.height = `${(count / most) * 26}px`;
        return [element];
    });
}

export interface StackPart {
    value: number;
    colour: number | null;
    title: string;
    onClick?: () => void;
}

/** One bar a row, of parts; all rows on one axis from 0. */
export function stacks(
    label: string,
    names: [string, string, string],
    rows: { label: string; parts: StackPart[]; total: string }[],
    show: (value: number) => string,
): HTMLElement {
    const sum = (parts: StackPart[]) => parts.reduce((all, p) => all + p.value, 0);
    const most = rows.reduce((m, r) => Math.max(m, sum(r.parts)), 0) || 1;
    const axis: Axis = { low: 0, high: most * 1.02, log: false };
    return frame(
        label,
        'stacks',
        [
            h('th', { scope: 'col' }, names[0]),
            axisCell(axis, names[1], show),
            h('th', { scope: 'col', class: 'number' }, names[2]),
        ],
        rows.map((row) => {
            const bars = row.parts.map((part) => {
                const bar = h(part.onClick ? 'button' : 'span', {
                    class: 'part',
                    title: part.title,
                    'aria-label': part.title,
                    ...(part.onClick ? { type: 'button', onClick: part.onClick } : {}),
                });
                bar.style.width = `${place(axis, part.value)}%`;
                bar.style.background =
                    part.colour === null ? 'var(--rule)' : lineVariable(part.colour);
                return bar;
            });
            return h(
                'tr',
                {},
                h('th', { scope: 'row' }, row.label),
                h('td', { class: 'track-cell' }, h('div', { class: 'track parts' }, ...bars)),
                h('td', { class: 'number' }, row.total),
            );
        }),
    );
}
