// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The dyno authors
//
// The values under the cursor of a chart, above the plot, so that no curve is covered.

import type uPlot from 'uplot';
import { h } from './dom';

export interface TooltipRow {
    colour: string;
    label: string;
    value: string;
}

export function tooltip(
    content: (index: number) => { head: string; rows: TooltipRow[] },
): uPlot.Plugin {
    const box = h('div', { class: 'tooltip', role: 'status', hidden: true });
    return {
        hooks: {
            init: [(u) => u.over.append(box)],
            setCursor: [
                (u) => {
                    const { left, idx } = u.cursor;
                    // Only the chart under the pointer or with the keyboard's focus shows its box: the
                    // others of its kind follow with their cursor line.
                    const mine =
                        u.over.matches(':hover') || u.root.parentElement === document.activeElement;
                    box.hidden =
                        !mine ||
                        idx === null ||
                        idx === undefined ||
                        left === undefined ||
                        left < 0;
                    if (box.hidden) return;
                    const { head, rows } = content(idx!);
                    box.replaceChildren(h('div', { class: 'head' }, head), table(rows));
                    place(u, box, left!);
                },
            ],
        },
    };
}

function table(rows: TooltipRow[]): HTMLElement {
    return h(
        'table',
        {},
        h(
            'tbody',
            {},
            ...rows.map((row) => {
                const swatch = h('span', { class: 'swatch' });
                swatch.style.color = row.colour;
                return h(
                    'tr',
                    {},
                    h('td', {}, swatch, row.label),
                    h('td', { class: 'number' }, row.value),
                );
            }),
        ),
    );
}

/** Of the bar that stays in sight. */
const barHeight = 50;

function place(u: uPlot, box: HTMLElement, left: number): void {
    const room = u.over.clientWidth;
    const wide = box.offsetWidth;
    const position = Math.min(left - wide / 2, room - wide);
    // On narrow screens neither side has the room: keep to the page.
    const page = u.over.getBoundingClientRect();
    const least = 4 - page.left;
    const most = document.documentElement.clientWidth - page.left - wide - 4;
    box.style.left = `${Math.max(least, Math.min(position, most))}px`;
    // Above the plot, and below it where the bar at the top of the page would cover it.
    const above = page.top - box.offsetHeight - 6 > barHeight;
    box.style.top = `${above ? -box.offsetHeight - 6 : page.height + 6}px`;
}
