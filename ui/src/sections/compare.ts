// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The dyno authors
//
// Two recordings beside each other: what changed and how sure that is, both in the same charts, and
// what was different where they were made.

import uPlot from 'uplot';
import { figure, type Chart } from '../chart';
import { absent, dropdown, framed, h, type Child } from '../dom';
import {
    findMetric,
    mostOf,
    num,
    objects,
    runTitle,
    sameRuns,
    sizeLabel,
    tableNamed,
    type Recording,
    type Row,
    type Run,
    type Series,
} from '../recording';
import { forest, type ForestRow } from '../plots';
import { inUnits, reordered } from '../shape';
import { sizeChart } from '../sizes';
import { tableView } from '../table';
import { verdictWords } from '../tablecells';
import { date, format, ratio, share } from '../units';
import type { Section, View } from '../view';
import { codesOf, distribution, threshold } from './bench';
import { plain, words } from './environment';

/** Rows of a plot; the table below it has all. */
const mostRows = 20;
const mostRuns = 12;

const tones: Record<string, ForestRow['tone']> = {
    slower: 'bad',
    more: 'bad',
    faster: 'good',
    less: 'good',
};

const verdicts = ['slower', 'more', 'faster', 'less', 'same', 'undecided', 'one_run'];
const wordOf = (row: Row) => verdictWords(row.verdict);

/** What is in one of the two recordings only. */
const isPresence = (row: Row) => row.verdict === 'new' || row.verdict === 'gone';

const limitOf = (recording: Recording) => Math.max(0.03, threshold(recording));

/** How many metrics became what, for the top of the page. */
export function outcome(recording: Recording): Child {
    const all = objects(tableNamed(recording, 'changes'));
    if (all.length === 0) return null;
    const rows = all.filter((r) => !isPresence(r));
    const of = (verdict: string) => rows.filter((r) => r.verdict === verdict).length;
    const counts = verdicts.flatMap((verdict) =>
        of(verdict) > 0 ? [`${of(verdict)} ${verdictWords(verdict)}`] : [],
    );
    const presence = ['new', 'gone'].flatMap((verdict) => {
        const items = all.filter((r) => r.verdict === verdict).map((r) => String(r.item));
        const more = items.length > 3 ? ` and ${items.length - 3} more` : '';
        return items.length > 0 ? [` ${verdict}: ${items.slice(0, 3).join(', ')}${more}.`] : [];
    });
    const limit = limitOf(recording);
    const open = rows.filter((r) => r.verdict === 'undecided' && isBeyond(r, limit)).length;
    const [kind, said] = conclusion(rows, open, of);
    const differ = open === 1 ? '1 metric differs' : `${open} metrics differ`;
    return h(
        'div',
        { class: `banner ${kind}`, id: 'outcome' },
        h('strong', {}, said),
        open > 0 ? ` ${differ} by more than ${share(limit)}, which may be chance.` : null,
        ` Of ${rows.length} metrics: ${counts.join(', ')}.`,
        ...presence.map((text) => text.replace(/^ ./, (first) => first.toUpperCase())),
    );
}

function conclusion(rows: Row[], open: number, of: (verdict: string) => number): [string, string] {
    const toned = (tone: string) => rows.some((r) => tones[String(r.verdict)] === tone);
    if (toned('bad')) return ['attention', 'Some metrics are worse.'];
    if (of('one_run') > 0)
        return ['', 'No verdict: there is one run of a size, which says nothing about chance.'];
    if (toned('good'))
        return ['pass', `Some metrics are better, none is ${open > 0 ? 'surely ' : ''}worse.`];
    if (open > 0) return ['attention', 'Not decided.'];
    return ['', 'No difference that matters was found.'];
}

const isBeyond = (row: Row, limit: number) => {
    const value = num(row.ratio);
    return value === null || Math.abs(Math.log(value || 1e-9)) > Math.log(1 + limit);
};

export const changes: Section = {
    id: 'changes',
    title: 'Changes',
    scope: 'recording',
    render: ({ recording }: View): Child[] => {
        const table = tableNamed(recording, 'changes');
        if (!table) return [];
        const all = objects(table);
        const rows = all.filter((r) => !isPresence(r));
        const ofFunctions = rows.filter((r) => r.metric === 'time per call');
        const others = rows.filter((r) => r.metric !== 'time per call');
        const limit = limitOf(recording);
        // The values say their units.
        const shown = reordered(table, table.columns.map((c) => c.name).filter((name) => name !== 'unit'));
        return [
            ...plot('New or gone', all.filter(isPresence), limit, false),
            ...plot('Metrics', others, limit, recording.command === 'bench' || others.length <= 40),
            ...plot('Functions that changed most', ofFunctions, limit, false),
            rows.length > 0
                ? h(
                      'p',
                      { class: 'note' },
                      `1× is no change; the shaded band is ${share(limit)} either way. A line is an interval, a hollow point has none: there were too few rounds or repetitions.`,
                  )
                : null,
            tableView(shown, {
                heading: 'All metrics',
                show: { ...inUnits(table, ['old', 'new'], shown), ratio, low: ratio, high: ratio },
                empty: 'The recordings have no metric in common.',
            }),
        ];
    },
};

function plot(label: string, rows: Row[], limit: number, all: boolean): Child[] {
    if (rows.length === 0) return [];
    const far = (r: Row) => Math.abs(Math.log(num(r.ratio) || 1));
    const shown = all ? rows : rows.filter((r) => r.verdict !== 'same').sort((a, b) => far(b) - far(a));
    if (shown.length === 0) return [h('h3', {}, label), absent('None changed.')];
    const part = shown.slice(0, all ? shown.length : mostRows);
    const drawn = forest({
        label,
        names: ['Of', 'Old', 'New', 'Ratio', 'Interval', 'Verdict'],
        band: [1 / (1 + limit), 1 + limit],
        rows: part.map((r) => ({
            label: r.metric === 'time per call' ? String(r.item) : `${r.item}: ${r.metric}`,
            value: num(r.ratio),
            low: num(r.low),
            high: num(r.high),
            cells: [
                format(num(r.old), String(r.unit ?? '1')),
                format(num(r.new), String(r.unit ?? '1')),
                ratio(num(r.ratio)),
                num(r.low) === null ? '' : `${ratio(num(r.low))} to ${ratio(num(r.high))}`,
            ],
            words: wordOf(r),
            tone: tones[String(r.verdict)] ?? 'open',
        })),
    });
    const left = rows.length - part.length;
    return [
        h('h3', {}, label),
        drawn,
        left > 0 ? h('p', { class: 'note' }, `${left} more are in the table below.`) : null,
    ];
}

export const sideBySide: Section = {
    id: 'both',
    title: 'Side by side',
    short: 'Both',
    scope: 'recording',
    render: ({ recording }: View): Child[] => {
        const { compared } = recording;
        if (!compared) return [];
        return compared.new.command === 'bench'
            ? benches(compared.old, compared.new)
            : tests(compared.old, compared.new);
    },
};

/** The rounds of each code, the old above the new. */
function benches(before: Recording, after: Recording): Child[] {
    const common = sameRuns(before, after);
    const shown = common.slice(0, mostRuns);
    const blocks = shown.flatMap(([old, run]) => {
        const samples = codesOf(run).flatMap((sample) => {
            const was = codesOf(old).find((s) => s.label === sample.label);
            return was
                ? [
                      { ...was, label: `${was.label} – old`, colour: 1, base: was.median },
                      { ...sample, label: `${sample.label} – new`, colour: 0, base: was.median },
                  ]
                : [];
        });
        if (samples.length === 0) return [];
        return [
            common.length > 1 ? h('h3', {}, runTitle(after, run)) : null,
            distribution(samples),
        ];
    });
    if (common.length > shown.length)
        blocks.push(absent(`${common.length - shown.length} more runs are not drawn.`));
    return blocks;
}

function tests(before: Recording, after: Recording): Child[] {
    const sizes = [
        overSizes(before, after, 'Throughput', '1/s', ['throughput']),
        overSizes(before, after, 'Response time', 'ns', ['latency.p50', 'latency.p99']),
        overSizes(before, after, 'Most memory of the VM', 'B', ['vm.memory.total']),
        overSizes(before, after, 'Errors, of all operations', 'ratio', ['errors.rate']),
    ].filter((c): c is Chart => c !== null);
    return [
        h('p', { class: 'lead' }, 'The old recording is dashed, the new one drawn through.'),
        sizes.length > 0 ? h('div', { class: 'grid' }, ...sizes.map(figure)) : null,
        overTime(before, after),
    ];
}

/** Both recordings as one with twice the runs, so that both are drawn over the same sizes. */
function overSizes(
    before: Recording,
    after: Recording,
    title: string,
    unit: string,
    names: string[],
): Chart | null {
    const old = new Set(before.runs);
    const both = { ...after, runs: [...before.runs, ...after.runs] };
    const lines = names.flatMap((name, colour) => {
        const value = (mine: boolean) => (run: Run) =>
            old.has(run) === mine ? ((findMetric(run, name) ?? mostOf(run, name))?.value ?? null) : null;
        const short = name.replace(/^.*\.(p[\d.]+)$/, '$1');
        const called = names.length > 1 && short !== name ? `${short}, ` : '';
        return [
            { label: `${called}old`, value: value(true), colour, dashed: true },
            { label: `${called}new`, value: value(false), colour },
        ];
    });
    const chart = sizeChart(both, title, unit, lines, unit === 'ns' ? 'log' : 'linear');
    // Two runs a size here are not repetitions.
    return chart && { ...chart, help: unit === 'ns' ? 'Log scale.' : '' };
}

/** What of the series is drawn over time, in this order. */
const overTimeNames = [
    'load.throughput',
    'load.latency.p50',
    'load.latency.p99',
    'vm.scheduler_utilisation.normal',
    'vm.run_queue.normal',
    'vm.memory.total',
];

function overTime(before: Recording, after: Recording): Child {
    const common = sameRuns(before, after);
    if (common.length === 0) return null;
    const host = h('div', { class: 'grid' });
    const draw = (pair: [Run, Run]) => {
        const charts = overTimeNames.flatMap((name) => {
            const [was, is] = pair.map((r) => r.series.find((s) => s.name === name));
            return was && is ? [figure(both(was, is))] : [];
        });
        host.replaceChildren(...charts);
    };
    const last = common.at(-1)!;
    const options = common.map(([, r]): [string, string] => [r.id, runTitle(after, r)]);
    const select = dropdown({}, options, last[1].id, (id) => draw(common.find(([, r]) => r.id === id)!));
    draw(last);
    return h(
        'div',
        {},
        h('h3', {}, 'Over time'),
        h('label', { class: 'list' }, h('span', {}, sizeLabel(after)), select),
        host,
    );
}

function both(was: Series, is: Series): Chart {
    const [times, old, now] = uPlot.join([
        [was.times_ms, was.values],
        [is.times_ms, is.values],
    ] as uPlot.AlignedData[]) as [number[], Chart['lines'][0]['values'], Chart['lines'][0]['values']];
    return {
        title: is.title,
        x: times.map((ms) => ms / 1000),
        xUnit: 's',
        unit: is.unit,
        // The two were sampled at different moments: each bridges those of the other.
        gaps: false,
        lines: [
            { label: 'old', values: old, colour: 0, dashed: true },
            { label: 'new', values: now, colour: 0 },
        ],
        warmupBefore: 0,
        sync: 'time',
    };
}

/** Fields that differ between any two recordings. */
const alwaysDifferent = ['time', 'order', 'seed', 'runs'];

export const conditions: Section = {
    id: 'conditions',
    title: 'Made on',
    short: 'Conditions',
    scope: 'recording',
    render: ({ recording }: View): Child[] => {
        const { compared } = recording;
        if (!compared) return [];
        const rows: [string, string, string][] = [
            ['Recorded', dated(compared.old), dated(compared.new)],
        ];
        let same = 0;
        for (const part of ['environment', 'parameters'] as const) {
            const [old, now] = [compared.old[part], compared.new[part]];
            for (const name of new Set([...Object.keys(old), ...Object.keys(now)])) {
                if (alwaysDifferent.includes(name)) continue;
                const [was, is] = [plain(old[name]), plain(now[name])];
                if (was === is) same += 1;
                else rows.push([words(name), was || '–', is || '–']);
            }
        }
        const head = ['', 'Old', 'New'].map((name) => h('th', { scope: 'col' }, name));
        return [
            framed(
                'Differences',
                'differences',
                head,
                rows.map(([name, was, is]) =>
                    h('tr', {}, h('th', { scope: 'row' }, name), h('td', {}, was), h('td', {}, is)),
                ),
            ),
            h(
                'p',
                { class: 'note' },
                rows.length === 1
                    ? `Nothing else differs: all ${same} facts about the machines and what was asked for are the same.`
                    : `${same} other facts about the machines and what was asked for are the same.`,
            ),
        ];
    },
};

function dated(recording: Recording): string {
    return [recording.name, recording.started_at && date(recording.started_at)]
        .filter(Boolean)
        .join(', ');
}
