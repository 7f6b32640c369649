// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The dyno authors
//
// Series of the VM, of the machine, and of instruments that this page does not know.

import { absent, h, type Child } from '../dom';
import { ofNode } from '../recording';
import { seriesGrid } from '../series';
import { tableView } from '../table';
import type { Section, View } from '../view';

const knownGroups = ['load', 'vm', 'os', 'processes'];
const knownTables = ['functions', 'callers', 'processes', 'errors', 'growth'];

function group(id: string, title: string, short: string, name: string, empty: string): Section {
    return {
        id,
        title,
        short,
        scope: 'run',
        render: ({ run, node }: View): Child[] => {
            if (!run) return [absent('No run was finished.')];
            return [
                seriesGrid(run.series.filter((s) => s.group === name && ofNode(s, node))) ??
                    absent(empty),
            ];
        },
    };
}

export const vm = group(
    'vm',
    'Virtual machine',
    'VM',
    'vm',
    'The target’s virtual machine was not sampled in this run.',
);

export const os = group(
    'os',
    'Operating system',
    'OS',
    'os',
    'The operating system was not sampled in this run; dyno reads it from /proc, which only Linux has.',
);

export const other: Section = {
    id: 'other',
    title: 'Other instruments',
    short: 'Other',
    scope: 'run',
    render: ({ recording, run, node }: View): Child[] => {
        if (!run) return [];
        const series = run.series.filter((s) => !knownGroups.includes(s.group) && ofNode(s, node));
        const groups = [...new Set(series.map((s) => s.group))];
        const tables = [...run.tables, ...recording.tables].filter(
            (t) => !knownTables.includes(t.name) && ofNode(t, node),
        );
        return [
            ...groups.flatMap((name) => [
                h('h3', {}, name.charAt(0).toUpperCase() + name.slice(1).replace(/_/g, ' ')),
                seriesGrid(series.filter((s) => s.group === name)),
            ]),
            ...tables.map((t) => tableView(t, { empty: 'The table has no rows.' })),
        ];
    },
};
