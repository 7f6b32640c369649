// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The dyno authors
//
// A flame graph of stacks: the callers above, what they call below, as wide as its share of the whole. A click on a frame makes it the whole width; one on a frame above it leads back.

import { h } from './dom';
import { lineVariable } from './palette';
import type { Profile } from './recording';
import { format, share } from './units';

export interface Frame {
    name: string;
    value: number;
    below: Map<string, Frame>;
}

/** Frames narrower than this share cannot be seen or clicked. */
const leastShare = 0.002;
const most = 4000;
const colours = 6;

const frame = (name: string): Frame => ({ name, value: 0, below: new Map() });

/** One tree of a profile's stacks, with what was spent of the first of its values. */
export function fold({ frames, samples }: Profile, which: number): Frame {
    const root = frame('all');
    for (const { stack, values } of samples) {
        const value = values[which] ?? 0;
        root.value += value;
        let at = root;
        for (const index of stack) {
            const name = frames[index] ?? '?';
            const next = at.below.get(name) ?? frame(name);
            at.below.set(name, next);
            next.value += value;
            at = next;
        }
    }
    return root;
}

/** Functions of one module have one colour. */
function colour(name: string): string {
    let sum = 0;
    for (const c of name.split(':')[0]!) sum = (sum * 31 + c.codePointAt(0)!) % 9973;
    return `color-mix(in srgb, ${lineVariable(sum % colours)} 42%, var(--surface))`;
}

export function flame(root: Frame, label: string, unit: string): HTMLElement {
    const host = h('div', { class: 'flame', role: 'group', 'aria-label': label });
    const draw = (path: Frame[]) => {
        const zoomed = path.at(-1)!;
        const rows: HTMLElement[] = [];
        let left = most;
        const put = (of: Frame, depth: number, start: number, width: number, lead: Frame[]) => {
            const text = `${of.name}: ${format(of.value, unit)} of ${format(root.value, unit)}, ${share(of.value / root.value)}`;
            const element = h('button', { type: 'button', title: text, 'aria-label': text }, of.name);
            element.style.left = `${start * 100}%`;
            element.style.width = `${width * 100}%`;
            element.style.background = of === root ? 'var(--rule)' : colour(of.name);
            element.addEventListener('click', () => {
                draw(lead);
                host.querySelectorAll('button')[lead.length - 1]?.focus();
            });
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
        host.replaceChildren(...rows);
    };
    draw([root]);
    return host;
}
