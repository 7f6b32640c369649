// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The dyno authors
//
// A benchmark: which code is faster and how sure that is, what its rounds were like, and how much
// the machine was disturbed.

import { figure, type Chart } from '../chart';
import { absent, h, type Child } from '../dom';
import {
    findMetric,
    num,
    objects,
    runTitle,
    tableNamed,
    type Column,
    type Recording,
    type Row,
    type Run,
    type Series,
    type Table,
} from '../recording';
import { axisFor, forest, strips } from '../plots';
import { columnOf } from '../shape';
import { median } from '../sizes';
import { tableView } from '../table';
import { verdictWords } from '../tablecells';
import { format, ratio, share, tick } from '../units';
import type { Section, View } from '../view';

/** Codes whose medians are further apart than this have too little room on one axis. */
const oneAxisUpTo = 3;

export function threshold(recording: Recording): number {
    return num(recording.parameters.threshold) ?? 0.03;
}

/** What the codes were compared by: their time, or what `--metric` asked for. */
function decided(table: Table | undefined): Column {
    const by = (name: string) => table?.columns.find((c) => c.name === name);
    return by('value') ?? by('time_per_call') ?? columnOf('time_per_call', 'Time per call', 'ns/call');
}

/** What a comparison found, as a sentence; a code's row is compared with the fastest. */
export function sentence(code: string, than: string, row: Row, by: Column, limit: number): string {
    const [low, high] = [num(row.ratio_low), num(row.ratio_high)];
    const interval = low !== null && high !== null ? ` (${ratio(low)} to ${ratio(high)})` : '';
    switch (row.verdict) {
        case 'more':
        case 'less':
            return num(row.ratio) === null
                ? `${code} has ${row.verdict} than ${than}: ${by.title.toLowerCase()}.`
                : `${code} has ${ratio(num(row.ratio))} times the ${by.title.toLowerCase()} of ${than}${interval}.`;
        case 'slower':
        case 'faster':
            return `${code} takes ${ratio(num(row.ratio))} times as long as ${than}${interval}.`;
        case 'same':
            return `No difference that matters (${share(limit)}) between ${code} and ${than}${interval}.`;
        case 'unknown':
            return `It is not known whether ${code} and ${than} differ: the doubts say why.`;
        default:
            return interval
                ? `It is not decided yet whether ${code} and ${than} differ${interval}.`
                : `Too few samples to say whether ${code} and ${than} differ.`;
    }
}

/** The answers of all runs, for the top of the page. */
export function answers(recording: Recording): Child[] {
    const several = recording.runs.length > 1;
    const items = recording.runs.flatMap((run) => {
        const table = tableNamed(run, 'codes');
        const rows = objects(table);
        const isFastest = (row: Row) => ['fastest', 'least'].includes(String(row.verdict));
        const fastest = rows.find(isFastest) ?? rows[0];
        const others = rows.filter((row) => row !== fastest);
        const where = several ? `${runTitle(recording, run)}: ` : '';
        // Of many codes the next ones: the table below has the others' verdicts.
        return others.slice(0, 3).map((row) =>
            h(
                'li',
                {},
                where +
                    sentence(
                        String(row.code),
                        String(fastest?.code),
                        row,
                        decided(table),
                        threshold(recording),
                    ),
            ),
        );
    });
    const curves = recording.runs.flatMap((run) => {
        const text = saturation(recording, objects(tableNamed(run, 'concurrencies')));
        return text ? [h('li', {}, text)] : [];
    });
    const all = [...items, ...curves];
    return all.length > 0 ? [h('ul', { class: 'sentences', id: 'answers' }, ...all)] : [];
}

export const comparison: Section = {
    id: 'comparison',
    title: 'Comparison',
    scope: 'run',
    render: ({ recording, run }: View): Child[] => {
        const table = run && tableNamed(run, 'codes');
        if (!run || !table) return [];
        const rows = objects(table);
        const limit = threshold(recording);
        const pairs = tableNamed(run, 'comparisons');
        const by = decided(table);
        const best = by.name === 'value' ? 'least' : 'fastest';
        return [
            rows.length > 1
                ? forest({
                      label: `Codes, compared with the ${best}`,
                      names: ['Code', by.title, `Times the ${best}`, 'Interval', 'Verdict'],
                      band: [1 / (1 + limit), 1 + limit],
                      rows: rows.map((row, i) => ({
                          label: String(row.code),
                          value: num(row.ratio),
                          low: num(row.ratio_low),
                          high: num(row.ratio_high),
                          cells: [
                              format(num(row[by.name]), by.unit),
                              ratio(num(row.ratio)),
                              interval(num(row.ratio_low), num(row.ratio_high)),
                          ],
                          reference: i === 0,
                          words: i === 0 ? best : verdictWords(row.verdict),
                          tone: ['same', 'undecided'].includes(String(row.verdict)) ? 'open' : 'plain',
                      })),
                  })
                : null,
            rows.length > 1
                ? h(
                      'p',
                      { class: 'note' },
                      `1× is the ${best}; the shaded band is the threshold of ${share(limit)}, within which differences do not matter. A line is the ${share(num(recording.parameters.level) ?? 0.95)} interval of the ratio, a hollow point has none.`,
                  )
                : null,
            disturbance(run, rows),
            tableView(table, { heading: 'All results of the codes', empty: 'No code was measured.' }),
            pairs && pairs.rows.length > 1
                ? tableView(pairs, { heading: 'All pairs', empty: '' })
                : null,
        ];
    },
};

function interval(low: number | null, high: number | null): string {
    return low === null || high === null ? '' : `${ratio(low)} to ${ratio(high)}`;
}

/** Whose the processor was while the codes ran. */
function disturbance(run: Run, rows: Row[]): Child {
    const all = findMetric(run, 'bench.waiting')?.value ?? null;
    const known = rows.map((r) => num(r.waiting)).filter((w): w is number => w !== null);
    if (all === null && known.length === 0) return null;
    const most = Math.max(all ?? 0, ...known);
    const words = most < 0.02 ? 'was quiet' : most < 0.1 ? 'was a little disturbed' : 'was busy';
    const tone = most < 0.02 ? 'pass' : most < 0.1 ? '' : 'attention';
    return h(
        'div',
        { class: `banner ${tone}`, id: 'disturbance' },
        h('strong', {}, `The machine ${words}.`),
        ` Other programs had the processor for ${share(all ?? most)} of the time while the codes ran. `,
        'That time is taken out of the times; what it did to the caches is not.',
    );
}

/** The rounds of each code, which has its colour by its place. */
export function codesOf(run: Run): (Sample & { series: Series })[] {
    const rows = objects(tableNamed(run, 'codes'));
    return run.series
        .filter((s) => s.name === 'bench.time' && s.values.some((v) => v !== null))
        .map((series, colour) => {
            const label = String(series.labels.code ?? series.title);
            const row = rows.find((r) => r.code === label);
            const values = series.values.filter((v): v is number => v !== null);
            return {
                label,
                series,
                values,
                median: num(row?.time_per_call) ?? median(values) ?? 0,
                low: num(row?.low),
                high: num(row?.high),
                unit: series.unit,
                colour,
            };
        });
}

export const rounds: Section = {
    id: 'rounds',
    title: 'Rounds',
    scope: 'run',
    render: ({ run }: View): Child[] => {
        const codes = run ? codesOf(run) : [];
        if (!run || codes.length === 0) return [];
        return [
            h('h3', {}, 'Distribution'),
            distribution(
                // The fastest first, as above.
                [...codes].sort((a, b) => a.median - b.median),
            ),
            h('div', { class: 'grid wide' }, figure(overTime(codes)), waiting(run)),
        ];
    },
};

export interface Sample {
    label: string;
    values: number[];
    median: number;
    low: number | null;
    high: number | null;
    unit: string;
    colour: number;
    /** What the values are shown from, where not from their own median. */
    base?: number;
}

/** Samples above each other, on one axis where they are alike, else each around its own median. */
export function distribution(samples: Sample[]): HTMLElement {
    const medians = samples.map((s) => s.median);
    const together = Math.max(...medians) <= oneAxisUpTo * Math.min(...medians);
    const of = (s: Sample, value: number) => (together ? value : value / (s.base ?? s.median) - 1);
    const axis = axisFor(
        samples.flatMap((s) => s.values.map((v) => of(s, v))),
        false,
    );
    const unit = samples[0]!.unit;
    return h(
        'div',
        {},
        strips(
            'Distribution of the rounds',
            together
                ? 'Time per call in each round'
                : samples.some((s) => s.base)
                  ? 'Each round, from the old median'
                  : 'Each round, from the code’s own median',
            ['Code', 'Rounds', 'Median', 'Interval'],
            axis,
            (v) => (together ? tick(v, unit) : `${v > 0 ? '+' : ''}${share(v)}`),
            samples.map((s) => ({
                label: s.label,
                values: s.values.map((v) => of(s, v)),
                median: of(s, s.median),
                low: s.low === null ? null : of(s, s.low),
                high: s.high === null ? null : of(s, s.high),
                cells: [
                    String(s.values.length),
                    format(s.median, s.unit),
                    s.low === null || s.high === null
                        ? '–'
                        : `${format(s.low, s.unit)} to ${format(s.high, s.unit)}`,
                ],
                colour: s.colour,
            })),
        ),
        h(
            'p',
            { class: 'note' },
            'The upright line is the median, the bar below its interval, the box the middle half of the rounds; a dot is a round, a column many. Two hills: something disturbed some of them.',
        ),
    );
}

/** Each round by the median of its code: what disturbs the machine moves all lines at once. */
function overTime(codes: ReturnType<typeof codesOf>): Chart {
    const times = codes[0]!.series.times_ms;
    return {
        title: 'Rounds over time',
        help: 'Time per call by the median of the same code: what lifts all lines at once was the machine.',
        x: times.map((ms) => ms / 1000),
        xUnit: 's',
        xLabel: 'after',
        unit: '1',
        band: [0.97, 1.03],
        yFree: true,
        style: times.length > 200 ? 'lines' : 'points',
        lines: codes.map(({ label, series, median }) => ({
            label,
            values: series.values.map((v) => (v === null ? null : v / median)),
        })),
        sync: 'rounds',
    };
}

/** How much of each round others had, where the recording says so. */
function waiting(run: Run): Child {
    const all = run.series.filter((s) => s.name === 'bench.waiting');
    if (all.length === 0) return null;
    return figure({
        title: 'Processor time that other programs took',
        help: 'Share of each round.',
        x: all[0]!.times_ms.map((ms) => ms / 1000),
        xUnit: 's',
        xLabel: 'after',
        unit: 'ratio',
        height: 130,
        lines: all.map((s) => ({ label: String(s.labels.code ?? s.title), values: s.values })),
        sync: 'rounds',
    });
}

/** Where more processes at once stop to help, as a sentence. */
function saturation(recording: Recording, rows: Row[]): string | null {
    const best = rows.find((r) => r.verdict === 'best');
    if (!best) return null;
    const workers = (n: unknown) => `${n} ${n === 1 ? 'worker' : 'workers'}`;
    const rate = format(num(best.throughput), '1/s');
    const more = rows.filter((r) => Number(r.concurrency) > Number(best.concurrency));
    const unsure = more
        .filter((r) => r.verdict === 'undecided' && (num(r.ratio) ?? 0) > 1.05)
        .sort((a, b) => (num(b.ratio) ?? 0) - (num(a.ratio) ?? 0))[0];
    if (unsure) {
        const [ratio, low, high] = [unsure.ratio, unsure.ratio_low, unsure.ratio_high].map((v) =>
            format(num(v), '1'),
        );
        const give = best.concurrency === 1 ? 'gives' : 'give';
        return `${workers(best.concurrency)} ${give} ${rate} for sure; ${unsure.concurrency} give more, not surely: ${ratio} times as much (${low} .. ${high}). Longer samples (-d) or more of them (-s) would tell.`;
    }
    if (recording.status === 'interrupted') {
        return `It was interrupted. Until then the throughput was highest with ${workers(best.concurrency)}: ${rate}.`;
    }
    if (more.length > 0) {
        const tried = more.map((r) => r.concurrency);
        const list = tried.length > 6 ? `${tried[0]} to ${tried.at(-1)}` : tried.join(', ');
        return `It saturates at ${workers(best.concurrency)}: ${rate}. With ${list} it was not shown to be higher.`;
    }
    return `The throughput is highest with ${workers(best.concurrency)}, the most that were tried: ${rate}. It may rise further.`;
}

export const squeeze: Section = {
    id: 'concurrency',
    title: 'Concurrency',
    scope: 'run',
    render: ({ recording, run }: View): Child[] => {
        const table = run && tableNamed(run, 'concurrencies');
        if (!table) return [];
        const rows = objects(table).sort((a, b) => Number(a.concurrency) - Number(b.concurrency));
        const best = rows.find((r) => r.verdict === 'best');
        const after = best && rows.find((r) => Number(r.concurrency) > Number(best.concurrency));
        const column = (name: string) => rows.map((r) => num(r[name]));
        const x = rows.map((r) => Number(r.concurrency));
        const rate = format(num(best?.throughput), '1/s');
        const curve: Chart = {
            title: 'Throughput by the number of workers',
            help: `Median with its ${share(num(recording.parameters.level) ?? 0.95)} interval.`,
            x,
            xUnit: '1',
            xLabel: 'workers',
            ...(x.length <= 12 ? { xTicks: x } : {}),
            xLog: x.length > 4 && x.at(-1)! > 30 * x[0]!,
            unit: '1/s',
            style: 'points',
            height: 280,
            lines: [
                {
                    label: 'throughput',
                    values: column('throughput'),
                    low: column('low'),
                    high: column('high'),
                },
            ],
            markers: best
                ? [
                      {
                          at: Number(best.concurrency),
                          label: after ? `best, and saturated: ${rate}` : `best: ${rate}`,
                      },
                  ]
                : [],
            sync: 'workers',
        };
        const latency: Chart = {
            title: 'Time per call by the number of workers',
            x,
            xUnit: '1',
            xLabel: 'workers',
            ...(x.length <= 12 ? { xTicks: x } : {}),
            xLog: curve.xLog === true,
            unit: 'ns/call',
            style: 'points',
            lines: [{ label: 'time per call', values: column('time_per_call') }],
            sync: 'workers',
        };
        const text = saturation(recording, rows);
        return [
            text ? h('p', { class: 'lead' }, text) : absent('No best number was found.'),
            h('div', { class: 'grid wide' }, figure(curve), figure(latency)),
            tableView(table, { heading: 'Every number of workers', empty: 'None was measured.' }),
        ];
    },
};
