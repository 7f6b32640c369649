// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The dyno authors
//
// What the load saw: over the sizes, and for the chosen run over time and as a distribution.

import { figure, type Chart } from '../chart';
import { absent, h, type Child } from '../dom';
import { histogramChart } from '../histogram';
import { findMetric, ofNode, runTitle, sizeLabel, type Recording, type Run } from '../recording';
import { seriesGrid } from '../series';
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
        if (recording.runs.length === 0) return [absent('No run was finished.')];
        if (sizes.length < 2) {
            return [
                absent(
                    'There is one size only; give the suite more sizes to see how the figures grow.',
                ),
            ];
        }
        const charts = [throughput(recording), latency(recording), errors(recording)];
        const drawn = charts.filter((c): c is Chart => c !== null);
        if (drawn.length === 0)
            return [absent('The runs have neither throughput, latency nor errors.')];
        return [h('div', { class: 'grid' }, ...drawn.map(figure))];
    },
};

function throughput(recording: Recording): Chart | null {
    const value = (name: string) => (run: Run) => findMetric(run, name)?.value;
    const lines = [
        { label: 'achieved', value: value('throughput') },
        { label: 'offered', value: value('load.offered') },
    ];
    return sizeChart(recording, 'Throughput', '1/s', lines);
}

function latency(recording: Recording): Chart | null {
    const names = new Set(recording.runs.flatMap((r) => r.metrics.map((m) => m.name)));
    const lines: SizeLine[] = ['p50', 'p90', 'p99', 'p99.9', 'max']
        .filter((part) => names.has(`latency.${part}`))
        .map((part) => ({
            label: part,
            value: (run) => findMetric(run, `latency.${part}`)?.value,
        }));
    return sizeChart(recording, 'Latency', 'ns', lines, 'log');
}

function errors(recording: Recording): Chart | null {
    const lines = [{ label: 'errors', value: (run: Run) => findMetric(run, 'errors.rate')?.value }];
    return sizeChart(recording, 'Errors, of all operations', 'ratio', lines);
}

export const load: Section = {
    id: 'load',
    title: 'Load over time',
    short: 'Load',
    scope: 'run',
    render: ({ recording, run, node }: View): Child[] => {
        if (!run) return [absent('No run was finished.')];
        const series = run.series.filter((s) => s.group === 'load' && ofNode(s, node));
        const which = `${sizeLabel(recording).toLowerCase()} ${runTitle(recording, run)}`;
        const table = run.tables.find((t) => t.name === 'errors');
        return [
            seriesGrid(series) ?? absent(`The run at ${which} recorded no load over time.`),
            ...distributions(run),
            table
                ? tableView(table, { sortBy: 'count', empty: 'No operation failed in this run.' })
                : null,
        ];
    },
};

/** Histograms of one group and unit share a chart, so that they can be compared. */
export function distributions(run: Run): Child[] {
    const groups = new Map<string, Run['histograms']>();
    for (const histogram of run.histograms) {
        const key = `${histogram.group} ${histogram.unit}`;
        groups.set(key, [...(groups.get(key) ?? []), histogram]);
    }
    if (groups.size === 0) return [absent('The run recorded no distribution of latencies.')];
    return [
        h(
            'div',
            { class: 'grid wide' },
            ...[...groups.values()].map((group) => {
                const title =
                    group.length === 1 ? group[0]!.title : group.map((g) => g.title).join(', ');
                return figure(histogramChart(`Distribution: ${title}`, group));
            }),
        ),
    ];
}
