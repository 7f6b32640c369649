// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The dyno authors
//
// What the load saw: over the sizes, and for the chosen run over time and as a distribution.

import { figure, type Chart } from '../chart';
import { absent, h, type Child } from '../dom';
import { histogramChart } from '../histogram';
import {
    findMetric,
    objects,
    ofNode,
    runPlace,
    type Histogram,
    type Recording,
    type Run,
} from '../recording';
import { seriesCharts, seriesStack, spanOf } from '../series';
import { sizeChart, sizesOf, type SizeLine } from '../sizes';
import { tableView } from '../table';
import type { Section, View } from '../view';

export const overSizes: Section = {
    id: 'sizes',
    title: 'Load over sizes',
    short: 'Sizes',
    scope: 'recording',
    render: ({ recording }: View) => {
        const sizes = sizesOf(recording);
        if (!recording.runs.some((r) => hasLoad(r))) return [];
        if (recording.runs.length === 0) return [absent('No run was finished.')];
        if (sizes.length < 2) {
            return [
                absent(
                    'There is one size only; give the suite more sizes to see how it grows.',
                ),
            ];
        }
        const charts = [
            throughput(recording),
            times(recording, 'Response time', 'latency'),
            times(recording, 'Service time', 'service'),
            errors(recording),
        ];
        const drawn = charts.filter((c): c is Chart => c !== null);
        if (drawn.length === 0)
            return [absent('The runs have neither throughput, latency nor errors.')];
        return [h('div', { class: 'grid' }, ...drawn.map(figure))];
    },
};

/** A metric over the sizes, with its interval where it has one. */
function line(recording: Recording, label: string, name: string): SizeLine {
    const repeated = objects(recording.tables.find((t) => t.name === 'repetitions'));
    const end = (which: 'low' | 'high') => (run: Run) => {
        const row = repeated.find((r) => r.size === run.size && r.metric === name);
        return findMetric(run, name)?.[which] ?? (row?.[which] as number | null | undefined);
    };
    const value = (run: Run) => findMetric(run, name)?.value;
    const known = recording.runs.some((run) => typeof end('low')(run) === 'number');
    return known ? { label, value, low: end('low'), high: end('high') } : { label, value };
}

function throughput(recording: Recording): Chart | null {
    const lines = [
        line(recording, 'achieved', 'throughput'),
        line(recording, 'asked', 'load.offered'),
    ];
    return sizeChart(
        recording,
        'Throughput',
        '1/s',
        lines,
        'linear',
        'If it rises no more, the system has reached its limit.',
    );
}

function times(recording: Recording, title: string, prefix: string): Chart | null {
    const names = new Set(recording.runs.flatMap((r) => r.metrics.map((m) => m.name)));
    const lines = ['p50', 'p90', 'p99', 'p99.9', 'max']
        .filter((part) => names.has(`${prefix}.${part}`))
        .map((part) => line(recording, part, `${prefix}.${part}`));
    const reading =
        prefix === 'latency'
            ? 'As a client sees it. Where it rises, operations wait.'
            : 'From when the operation began, without waiting for its turn.';
    return sizeChart(recording, title, 'ns', lines, 'log', reading);
}

function errors(recording: Recording): Chart | null {
    const lines = [{ label: 'errors', value: (run: Run) => findMetric(run, 'errors.rate')?.value }];
    return sizeChart(recording, 'Errors, of all operations', 'ratio', lines, 'linear', 'The share that failed.');
}

export const load: Section = {
    id: 'load',
    title: 'Load, and what it does inside',
    short: 'Load',
    scope: 'run',
    render: ({ recording, run, node }: View): Child[] => {
        if (!run) return [absent('No run was finished.')];
        if (!recording.runs.some(hasLoad)) return [];
        const mine = run.series.filter((s) => ofNode(s, node));
        const of = (group: string) => mine.filter((s) => s.group === group);
        const inside = seriesCharts([...of('vm'), ...of('os')]).filter(({ name }) =>
            shownInside.includes(name),
        );
        const charts = [...seriesCharts(of('load')), ...inside, ...seriesCharts(of('custom'))];
        const which = runPlace(recording, run);
        const errors = run.tables.find((t) => t.name === 'errors');
        return [
            of('load').length === 0
                ? absent(`The run at ${which} recorded no load over time.`)
                : null,
            charts.length > 0
                ? seriesStack(charts.map((c) => c.chart), spanOf(mine), run)
                : null,
            ...distributions(run),
            ...run.tables
                .filter((t) => loadTables.includes(t.name))
                .map((t) => tableView(t, { empty: 'None was recorded.' })),
            errors
                ? tableView(errors, { sortBy: 'count', empty: 'No operation failed in this run.' })
                : null,
        ];
    },
};

/** A recording of a system that had work of its own has no load to show. */
export const hasLoad = (run: Run): boolean =>
    run.status === 'failed' || run.series.some((s) => s.group === 'load') || findMetric(run, 'throughput') !== undefined;

/** What of the inside stands under the load, on its time axis. */
export const shownInside = ['vm.scheduler_utilisation', 'vm.run_queue', 'vm.memory', 'os.cpu'];
export const loadTables = ['operations', 'phases', 'probes', 'load_nodes'];

/** What a histogram is compared with: those of kinds of operations with each other, and so on. */
function family({ name, group, unit }: Histogram): string {
    const parts = name.split('.');
    const of = parts.length > 2 ? `${parts[0]} ${parts.at(-1)}` : name === 'load.schedule_lag' ? name : '';
    return `${group} ${unit} ${of}`;
}

/** Histograms of one family share a chart, so that they can be compared. */
export function distributions(run: Pick<Run, 'histograms'>): Child[] {
    const groups = new Map<string, Histogram[]>();
    for (const histogram of run.histograms) {
        const key = family(histogram);
        groups.set(key, [...(groups.get(key) ?? []), histogram]);
    }
    if (groups.size === 0) return [absent('The run recorded no distribution of latencies.')];
    return [
        h(
            'div',
            { class: 'grid wide' },
            ...[...groups.values()].map((group) => {
                const titles = [...new Set(group.map((g) => g.title))];
                const named = group.map((g) => ({
                    ...g,
                    // `operation.order.latency` is that of `order`.
                    title: titles.length < group.length ? g.name.split('.').slice(1, -1).join('.') || g.title : g.title,
                }));
                const parts = titles.length < group.length ? named.map((g) => g.title) : [];
                const title = titles.join(', ') + (parts.length > 0 ? ` of ${parts.join(', ')}` : '');
                return figure(histogramChart(`Distribution: ${title}`, named));
            }),
        ),
    ];
}
