// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The dyno authors
//
// Series of the VM, of the machine, and of instruments that this page does not know.

import { absent, h, type Child } from '../dom';
import { findMetric, ofNode, type Metric, type Recording, type Run } from '../recording';
import { atAGlance } from './glance';
import { distributions, hasLoad, loadTables, shownInside } from './load';
import { figure } from '../chart';
import { familyName, seriesGrid } from '../series';
import { sizeChart, sizesOf } from '../sizes';
import { anyTable } from '../shape';
import { tableView } from '../table';
import type { Section, View } from '../view';

const knownGroups = ['load', 'vm', 'os', 'processes', 'custom'];
const shownAsFindings = ['findings', 'saturation', 'server_findings'];
/** The stages themselves are a table, too. */
const drawn = ['pipeline', 'flows'];
const knownTables = [
    ...['functions', 'callers', 'processes', 'errors', 'growth', 'repetitions'],
    ...[...shownAsFindings, ...drawn],
    ...['invariants', 'custom_agents', 'changes', 'ets', 'ports', 'profile', 'waiting', ...loadTables],
];
/** Groups of metrics that are shown elsewhere. */
const knownMetrics = ['load', 'vm', 'os', 'processes', 'instrument', 'bench'];

function group(
    id: string,
    title: string,
    short: string,
    name: string,
    empty: string,
    tables: string[] = [],
): Section {
    return {
        id,
        title,
        short,
        scope: 'run',
        render: ({ recording, run, node }: View): Child[] => {
            if (!run) return [absent('No run was finished.')];
            const above = recording.command === 'record' ? atAGlance : [];
            const all = run.series.filter(
                (s) => s.group === name && ofNode(s, node) && !above.includes(familyName(s)),
            );
            // What stands under the load is not shown twice.
            const inside = hasLoad(run) ? all.filter((s) => shownInside.includes(familyName(s))) : [];
            return [
                seriesGrid(all.filter((s) => !inside.includes(s)), run) ?? absent(empty),
                inside.length > 0
                    ? h('p', { class: 'note' }, 'More of it is under “Load”, on one time axis with the load.')
                    : null,
                ...run.tables
                    .filter((t) => tables.includes(t.name) && ofNode(t, node))
                    .map((t) => tableView(t, { empty: 'There was none.' })),
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
    ['ets', 'ports'],
);

export const os = group(
    'os',
    'Operating system',
    'OS',
    'os',
    'The operating system was not sampled in this run; dyno reads it from /proc, which only Linux has.',
);

/** What the suite itself asks for: conditions that must hold all the time, and its own metrics. */
export const custom: Section = {
    id: 'custom',
    title: 'Invariants and custom metrics',
    short: 'Custom',
    scope: 'run',
    render: ({ recording, run, node }: View): Child[] => {
        const tables = (name: string) =>
            (run?.tables ?? []).filter((t) => t.name === name && ofNode(t, node));
        const series = (run?.series ?? []).filter((s) => s.group === 'custom' && ofNode(s, node));
        return [
            ...tables('invariants').map((t) =>
                tableView(t, { heading: 'Invariants', empty: 'No invariant was checked.' }),
            ),
            metricCharts(recording, (m) => m.group === 'custom'),
            seriesGrid(series, run),
            ...tables('custom_agents').map((t) =>
                tableView(t, { heading: 'Results of custom agents', empty: 'The custom agents gave none.' }),
            ),
        ];
    },
};

/** Nodes that were loaded at the same time: each with what it did, over the time. */
export const cluster: Section = {
    id: 'cluster',
    title: 'Nodes',
    scope: 'run',
    render: ({ run, node }: View): Child[] => {
        const tables = (run?.tables ?? []).filter((t) => t.name === 'cluster');
        if (!run || tables.length === 0) return [];
        return [
            ...tables.map((t) => tableView(t, { empty: 'No node was loaded.' })),
            seriesGrid(run.series.filter((s) => ofNode(s, node))),
        ];
    },
};

/** Metrics over the sizes, whatever they are: those of one unit and one first name together. */
function metricCharts(recording: Recording, wanted: (metric: Metric) => boolean): Child {
    if (sizesOf(recording).length < 2) return null;
    const groups = new Map<string, Map<string, Metric>>();
    for (const metric of recording.runs.flatMap((r) => r.metrics)) {
        if (!wanted(metric) || metric.value === null) continue;
        const key = `${metric.name.split('.')[0]} ${metric.unit}`;
        const group = groups.get(key) ?? new Map<string, Metric>();
        groups.set(key, group.set(metric.name, metric));
    }
    const charts = [...groups.values()].flatMap((group) => {
        const all = [...group.values()];
        const first = all[0]!;
        const title = all.length === 1 ? first.title : first.name.split('.')[0]!;
        const value = (name: string) => (run: Run) => findMetric(run, name)?.value;
        const lines = all.map((m) => ({ label: m.title, value: value(m.name) }));
        const chart = sizeChart(recording, title, first.unit, lines);
        return chart ? [figure(chart)] : [];
    });
    return charts.length > 0 ? h('div', { class: 'grid' }, ...charts) : null;
}

const isIn = (groups: string[], tables: string[]) => ({ groups, tables });
/** What of a test has a section of its own. */
export const other = rest('Other instruments', isIn(knownGroups, knownTables));
/** What of a benchmark has; the series are drawn as rounds. */
export const otherOfBenchmarks = rest(
    'More results',
    isIn(
        ['bench', 'vm', 'os'],
        ['codes', 'comparisons', 'concurrencies', 'cluster', 'profile', 'growth', 'changes'],
    ),
);
export const otherOfComparisons = rest('More results', isIn([], ['changes']));
/** Of a command that this page does not know all is there. */
export const everything = rest('Results', isIn([], ['profile', 'waiting', ...shownAsFindings, ...drawn]));

interface Elsewhere {
    groups: string[];
    tables: string[];
}

/** Whatever was recorded that has no section of its own, with its units. */
function rest(title: string, elsewhere: Elsewhere): Section {
    return {
        id: 'other',
        title,
        short: title === 'Results' ? title : 'Other',
        scope: 'run',
        render: (view: View): Child[] => unknown(view, elsewhere),
    };
}

function unknown({ recording, run, node }: View, elsewhere: Elsewhere): Child[] {
    const isOther = ({ group }: { group: string }) => !elsewhere.groups.includes(group);
    const series = (run?.series ?? []).filter((s) => isOther(s) && ofNode(s, node));
    const groups = [...new Set(series.map((s) => s.group))];
    const tables = [...(run?.tables ?? []), ...recording.tables].filter(
        (t) => !elsewhere.tables.includes(t.name) && ofNode(t, node),
    );
    const histograms = (run?.histograms ?? []).filter(isOther);
    const all = tables.map((t) => anyTable(t, { empty: 'The table has no rows.' }));
    // Of a command that has no sections of its own they are the answer.
    const first = elsewhere.groups.length === 0;
    return [
        ...(first ? all : []),
        metricCharts(
            recording,
            (m) => isOther(m) && !knownMetrics.includes(m.group) && m.group !== 'custom',
        ),
        ...groups.flatMap((name) => [
            h('h3', {}, name.charAt(0).toUpperCase() + name.slice(1).replace(/_/g, ' ')),
            seriesGrid(series.filter((s) => s.group === name), run),
        ]),
        ...(histograms.length > 0 ? distributions({ histograms }) : []),
        ...(first ? [] : all),
    ];
}
