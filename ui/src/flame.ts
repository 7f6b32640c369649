// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The dyno authors
//
// A flame graph of stacks: the callers above, what they call below, as wide as its share of the whole. A click on a frame makes it the whole width; one on a frame above it leads back. Arrow keys go from frame to frame.

import { h } from './dom';
import { lineVariable } from './palette';
import type { Profile } from './recording';
import { format, share } from './units';

export interface Frame {
    name: string;
    /** What the stacks are of, such as processes; not a function. */
    label: boolean;
    value: number;
    below: Map<string, Frame>;
}

interface Placed {
    path: Frame[];
    start: number;
    width: number;
}

/** Frames narrower than this share cannot be seen or clicked. */
const leastShare = 0.002;
const most = 4000;
const colours = 6;

const frame = (name: string, label = false): Frame => ({ name, label, value: 0, below: new Map() });

/** One tree of a profile's stacks, with what was spent of one of its values. What the samples' labels say comes first. */
export function fold({ frames, samples }: Profile, which: number): Frame {
    const root = frame('all', true);
    for (const { stack, values, labels } of samples) {
        const value = values[which] ?? 0;
        root.value += value;
        let at = root;
        const down = (key: string, name: string, label: boolean) => {
            const next = at.below.get(key) ?? frame(name, label);
            at.below.set(key, next);
            next.value += value;
            at = next;
        };
        for (const label of labels) down(`label ${label}`, label, true);
        for (const index of stack) down(`frame ${index}`, frames[index] ?? '?', false);
    }
    return root;
}

/** Functions of one module have one colour; what is no function, none. */
function colour({ name, label }: Frame): string {
    if (label || name.startsWith('(')) return 'var(--rule)';
    let sum = 0;
    for (const c of name.split(':')[0]!) sum = (sum * 31 + c.codePointAt(0)!) % 9973;
    return `color-mix(in srgb, ${lineVariable(sum % colours)} 42%, var(--surface))`;
}

const matching = (text: string, { name, label }: Frame) => !label && name.toLowerCase().includes(text);

/** The value of all functions that have the text in their names; what one of them calls counts once. */
function having(text: string, of: Frame): number {
    if (matching(text, of)) return of.value;
    let sum = 0;
    for (const child of of.below.values()) sum += having(text, child);
    return sum;
}

export function flame(root: Frame, label: string, unit: string): HTMLElement {
    const graph = h('div', { class: 'flame', role: 'group', 'aria-label': label });
    const search = h('input', { type: 'search', placeholder: 'Find a function', 'aria-label': `Find a function in ${label}` });
    const found = h('output', {});
    const shown = h('p', { class: 'frame' }, '\u00a0');
    let placed = new Map<HTMLElement, Placed>();

    const mark = () => {
        const text = search.value.trim().toLowerCase();
        for (const [element, { path }] of placed) {
            const matches = text !== '' && matching(text, path.at(-1)!);
            element.classList.toggle('found', matches);
            element.classList.toggle('dim', text !== '' && !matches);
        }
        found.textContent = text === '' ? '' : `in ${share(having(text, root) / root.value)} of all`;
    };
    const focus = (element: HTMLElement | undefined) => {
        if (!element) return;
        for (const other of placed.keys()) other.tabIndex = -1;
        element.tabIndex = 0;
        element.focus();
    };
    const draw = (path: Frame[]) => {
        const zoomed = path.at(-1)!;
        const rows: HTMLElement[] = [];
        let left = most;
        placed = new Map();
        const put = (of: Frame, depth: number, start: number, width: number, lead: Frame[]) => {
            const text = `${of.name}: ${format(of.value, unit)} of ${format(root.value, unit)}, ${share(of.value / root.value)}`;
            const element = h('button', { type: 'button', title: text, 'aria-label': text }, of.name);
            element.tabIndex = placed.size === 0 ? 0 : -1;
            element.style.left = `${start * 100}%`;
            element.style.width = `${width * 100}%`;
            element.style.background = colour(of);
            element.addEventListener('click', () => {
                draw(lead);
                focus([...placed.keys()][lead.length - 1]);
            });
            for (const event of ['focus', 'pointerenter']) {
                element.addEventListener(event, () => (shown.textContent = text));
            }
            placed.set(element, { path: lead, start, width });
            (rows[depth] ??= h('div', { class: 'level' })).append(element);
            left -= 1;
        };
        path.forEach((of, depth) => put(of, depth, 0, 1, path.slice(0, depth + 1)));
        const under = (of: Frame, depth: number, start: number, lead: Frame[]) => {
            let at = start;
            for (const child of [...of.below.values()].sort((a, b) => b.value - a.value)) {
                const width = child.value / zoomed.value;
                if (width < leastShare || left <= 0) continue;
                const path = [...lead, child];
                put(child, depth, at, width, path);
                under(child, depth + 1, at, path);
                at += width;
            }
        };
        under(zoomed, path.length, 0, path);
        graph.replaceChildren(...rows);
        mark();
    };
    graph.addEventListener('keydown', (event) => {
        const from = event.target as HTMLElement;
        const at = placed.get(from);
        const level = from.parentElement;
        if (!at || !level) return;
        const near = (row: Element | null) =>
            [...((row?.children ?? []) as Iterable<HTMLElement>)].find((e) => {
                const other = placed.get(e)!;
                const [inner, outer] = row === level.previousElementSibling ? [at, other] : [other, at];
                return inner.path.length > outer.path.length && inner.path[outer.path.length - 1] === outer.path.at(-1);
            });
        const moves: Record<string, () => Element | null | undefined> = {
            ArrowDown: () => near(level.nextElementSibling),
            ArrowUp: () => near(level.previousElementSibling),
            ArrowLeft: () => from.previousElementSibling,
            ArrowRight: () => from.nextElementSibling,
        };
        if (event.key === 'Escape') {
            draw([root]);
            focus([...placed.keys()][0]);
        } else if (moves[event.key]) {
            focus((moves[event.key]!() ?? undefined) as HTMLElement | undefined);
        } else return;
        event.preventDefault();
    });
    search.addEventListener('input', mark);
    draw([root]);
    return h('div', { class: 'flames' }, h('p', {}, search, ' ', found), graph, shown);
}
