// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The dyno authors
//
// What happened when: each kind of event on the time axis, and all of them as a table.

import { absent, type Child } from '../dom';
import { axisFor, strips } from '../plots';
import { ofNode, type Cell, type Event, type Table } from '../recording';
import { columnOf } from '../shape';
import { tableView } from '../table';
import { format, grouped } from '../units';
import type { Section, View } from '../view';

export const events: Section = {
    id: 'events',
    title: 'Events',
    scope: 'run',
    render: ({ run, node }: View): Child[] => {
        const { items, dropped } = run?.events ?? { items: [], dropped: 0 };
        const mine = items.filter((e) => ofNode(e, node));
        if (mine.length === 0) return [];
        const kinds = [...new Set(mine.map((e) => e.kind))];
        const rows = kinds.map((kind, colour) => {
            const values = mine.filter((e) => e.kind === kind).map((e) => e.time_ms);
            return {
                label: kind,
                values,
                median: null,
                low: null,
                high: null,
                cells: [grouped(values.length)],
                colour,
            };
        });
        const show = (ms: number) => format(ms, 'ms');
        const axis = axisFor(mine.map((e) => e.time_ms), false);
        return [
            strips('Events over time', 'Time', ['Kind', 'Events'], axis, show, rows),
            tableView(table(mine), { empty: '' }),
            dropped > 0 ? absent(`${grouped(dropped)} more events were not kept.`) : null,
        ];
    },
};

function table(items: Event[]): Table {
    const all = [
        columnOf('time_ms', 'Time', 'ms'),
        columnOf('kind', 'Kind'),
        columnOf('node', 'Node'),
        columnOf('process', 'Process'),
        columnOf('text', 'Event'),
    ];
    // A column that says nothing is left out.
    const columns = all.filter(({ name }) => items.some((e) => e[name as keyof Event] !== null));
    return {
        name: 'events',
        title: 'Events',
        node: null,
        sort: null,
        columns,
        rows: items.map((e) => columns.map(({ name }) => e[name as keyof Event] as Cell)),
        truncated: 0,
    };
}
