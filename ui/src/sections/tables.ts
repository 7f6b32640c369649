// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The dyno authors
//
// What was measured inside the target: functions, their growth over the sizes, processes, and which
// kind of process called which function.

import { figure } from '../chart';
import { absent, h, type Child } from '../dom';
import { inspector } from '../inspect';
import { stacks } from '../plots';
import {
    findMetric,
    objects,
    ofNode,
    sizeLabel,
    tableOf,
    type Cell,
    type Row,
    type Run,
    type Table,
} from '../recording';
import { seriesGrid } from '../series';
import { sizeChart, sizesOf } from '../sizes';
import { inUnits, reordered } from '../shape';
import { tableView } from '../table';
import { lineVariable } from '../palette';
import { withBounds } from '../uncertain';
import { format, share, tick } from '../units';
import type { Section, View } from '../view';

/** Lines in the chart of functions over the sizes: as many as there are colours. */
const topFunctions = 6;

export const functions: Section = {
    id: 'functions',
    title: 'Functions',
    scope: 'run',
    render: (view: View): Child[] => {
        const { run } = view;
        if (!run) return [absent('No run was finished.')];
        const table = tableOf(run, 'functions', view.node);
        if (!table) {
            return [
                absent(
                    'No function was measured: the suite names no patterns, or the target was not reached.',
                ),
            ];
        }
        const callers = tableOf(run, 'callers', view.node);
        const told = withBounds(table);
        return [
            ...overSizes(view, table),
            tableView(told.table, {
                show: told.show,
                sortBy: 'own_time',
                open: { function: inspector(view, 'function') },
                empty: 'None of the measured functions was called in this run.',
            }),
            callers
                ? tableView(callers, {
                      sortBy: 'own_time',
                      heading: 'Functions by the processes that call them',
                      open: {
                          function: inspector(view, 'function'),
                          processes: inspector(view, 'group'),
                      },
                      empty: 'No process was seen that calls one.',
                  })
                : null,
        ];
    },
};

export const growth: Section = {
    id: 'growth',
    title: 'Growth',
    scope: 'recording',
    render: (view: View): Child[] => {
        const { recording } = view;
        const table = recording.tables.find((t) => t.name === 'growth');
        if (!table) {
            if (recording.command !== 'test') return [];
            return [
                absent(
                    sizesOf(recording).length < 3
                        ? 'Growth is estimated from three sizes and more.'
                        : 'The recording has no estimate of growth.',
                ),
            ];
        }
        const shown = named(
            reordered(table, growthColumns),
            'extrapolated',
            `Extrapolated to ${extrapolatedTo(table)}`,
        );
        const functionOf = inspector(view, 'function');
        const groupOf = inspector(view, 'group');
        return [
            h(
                'p',
                { class: 'lead' },
                'How a metric grows with the size: an exponent of 0 stays the same, 1 grows in proportion, 2 with the square. Low and High are its confidence interval.',
            ),
            // In the recording's order: what surely grows and matters comes first.
            tableView(shown, {
                show: growthCells(table, shown),
                open: { name: (name) => functionOf(name) ?? groupOf(name) },
                heading: 'Exponents',
                empty: 'No metric had enough values to estimate its growth.',
            }),
        ];
    },
};

export const processes: Section = {
    id: 'processes',
    title: 'Processes',
    scope: 'run',
    render: (view: View): Child[] => {
        const { run, node } = view;
        if (!run) return [absent('No run was finished.')];
        const table = tableOf(run, 'processes', node);
        const series = run.series.filter((s) => s.group === 'processes' && ofNode(s, node));
        return [
            table ? memoryChart(view, table) : null,
            table
                ? tableView(without(table, secondary), {
                      sortBy: 'memory_max',
                      open: { group: inspector(view, 'group') },
                      empty: 'No process called a measured function in this run.',
                  })
                : absent(
                      'No process was discovered: none called a measured function, or no pattern was given.',
                  ),
            seriesGrid(series),
        ];
    },
};

/** Of the processes' table; the closer look at a group has them all. */
const secondary = ['ended', 'lifetime_p90', 'lifetimes', 'sampled'];

/** What follows from other columns, or says how good they are, would push them off the screen. */
function without(table: Table, names: string[]): Table {
    return reordered(table, table.columns.map((c) => c.name).filter((name) => !names.includes(name)));
}

const growthColumns = ['name', 'exponent', 'low', 'high', 'smallest', 'largest', 'extrapolated', 'share', 'kind'];

type Show = (value: number, row: Cell[]) => string;

/** Exponents with as many digits as they deserve; what is extrapolated with its interval. */
function growthCells(table: Table, shown: Table): Record<string, Show> {
    const exponent = (value: number) => value.toFixed(2).replace(/^-0.00$/, '0.00').replace('-', '−');
    const whole = objects(table);
    const wholes = new Map(shown.rows.map((row, i) => [row, whole[i]!]));
    const extrapolated = (value: number, row: Cell[]) => {
        const { unit, extrapolated_low: low, extrapolated_high: high } = wholes.get(row) ?? {};
        const told = (number: number) => format(number, String(unit ?? '1'));
        return typeof low === 'number' && typeof high === 'number'
            ? `${told(value)} (${told(low)} to ${told(high)})`
            : told(value);
    };
    return {
        ...inUnits(table, ['smallest', 'largest'], shown),
        exponent,
        low: exponent,
        high: exponent,
        extrapolated,
    };
}

/** The size that all were carried on to; of several, no one is named. */
function extrapolatedTo(table: Table): string {
    const at = column(table, 'extrapolated_size');
    const sizes = new Set(table.rows.map((row) => row[at]).filter((n) => typeof n === 'number'));
    return sizes.size === 1 ? `${format([...sizes][0] as number, 'count')}, not measured` : 'larger sizes';
}

/** The same with another title of a column. */
function named(table: Table, name: string, title: string): Table {
    const columns = table.columns.map((c) => (c.name === name ? { ...c, title } : c));
    return { ...table, columns };
}

/** Time per call of the functions that take the most, over the sizes. */
function growthChart(view: View, top: string[]): Child {
    const { recording } = view;
    if (sizesOf(recording).length < 2) return null;
    const found = perCall(view, top);
    const of = (label: string, name: string) => (run: Run) =>
        found.get(run)?.get(label)?.[name] as number | null | undefined;
    const lines = top.map((label) => ({
        label,
        value: of(label, 'time_per_call'),
        low: of(label, 'time_per_call_low'),
        high: of(label, 'time_per_call_high'),
    }));
    const chart = sizeChart(
        recording,
        'Time per call over sizes, of the functions that take the most',
        'ns/call',
        lines,
        'log',
        'A function whose line rises gets slower with the size itself; a flat one is only called more often. Bars are intervals.',
    );
    return chart && h('div', { class: 'grid wide' }, figure(chart));
}

function column(table: Table, name: string): number {
    return table.columns.findIndex((c) => c.name === name);
}

/** One pass over each run's table, however many functions it has. */
function perCall(view: View, wanted: string[]): Map<Run, Map<string, Row>> {
    const result = new Map<Run, Map<string, Row>>();
    for (const run of view.recording.runs) {
        const table = tableOf(run, 'functions', view.node);
        if (!table) continue;
        const name = column(table, 'function');
        const rows = table.rows.filter((row) => wanted.includes(String(row[name])));
        const values = objects({ ...table, rows }).map((row) => [String(row.function), row] as const);
        result.set(run, new Map(values));
    }
    return result;
}

/** What the functions of a run took, and for how many operations. */
interface Spent {
    time: Map<string, number>;
    all: number;
    operations: number;
}

function spent(view: View, run: Run): Spent {
    const time = numbersOf(tableOf(run, 'functions', view.node), 'function', 'own_time');
    const all = [...time.values()].reduce((sum, value) => sum + value, 0);
    return { time, all, operations: findMetric(run, 'operations.count')?.value ?? 0 };
}

/** The numbers of a column, by the names in another. */
function numbersOf(table: Table | undefined, name: string, of: string): Map<string, number> {
    const [key, value] = table ? [column(table, name), column(table, of)] : [-1, -1];
    const known = (table?.rows ?? []).filter((row) => typeof row[value] === 'number');
    return new Map(known.map((row) => [String(row[key]), row[value] as number]));
}

/** The functions that take the most, over the sizes: where the time goes, and that of a call. */
function overSizes(view: View, table: Table): Child[] {
    const { recording } = view;
    const known = ['function', 'own_time'].every((name) => column(table, name) >= 0);
    if (!known || table.rows.length === 0 || sizesOf(recording).length === 0) return [];
    const of = sizesOf(recording).map((size) =>
        recording.runs.filter((r) => r.size === size).map((run) => spent(view, run)),
    );
    // The largest share at any size, so that what only grows later is there, too.
    const most = new Map<string, number>();
    for (const s of of.flat())
        for (const [label, time] of s.time)
            most.set(label, Math.max(most.get(label) ?? 0, s.all > 0 ? time / s.all : 0));
    const top = [...most]
        .sort((a, b) => b[1] - a[1])
        .slice(0, topFunctions)
        .map(([label]) => label);
    return [stacked(view, of, top), growthChart(view, top)];
}

/** Where the time goes at each size: for each operation, where operations were counted. */
function stacked(view: View, of: Spent[][], top: string[]): Child {
    const { recording } = view;
    const sizes = sizesOf(recording);
    const total = (runs: Spent[], value: (s: Spent) => number) =>
        runs.reduce((sum, s) => sum + value(s), 0);
    const perOperation = of.every((runs) => runs.every((s) => s.operations > 0));
    const by = (runs: Spent[]) => (perOperation ? total(runs, (s) => s.operations) : runs.length);
    const open = inspector(view, 'function');
    const rows = of.map((runs, i) => {
        const each = (value: (s: Spent) => number) => total(runs, value) / by(runs);
        const all = each((s) => s.all);
        const part = (label: string, time: number, colour: number | null) => ({
            value: time,
            colour,
            title: `${label}: ${format(time, 'ns')}, ${share(all > 0 ? time / all : 0)}`,
            ...(colour === null ? {} : { onClick: () => open(label)?.() }),
        });
        const known = top.map((label, n) => part(label, each((s) => s.time.get(label) ?? 0), n));
        const rest = all - known.reduce((sum, p) => sum + p.value, 0);
        return {
            label: format(sizes[i]!, 'count'),
            parts: [...known, part('all others', Math.max(0, rest), null)],
            total: format(all, 'ns'),
        };
    });
    const title = perOperation ? 'Own time of functions, per operation' : 'Own time of functions';
    const legend = top.map((label, n) => {
        const swatch = h('span', { class: 'swatch' });
        swatch.style.color = lineVariable(n);
        return h('button', { type: 'button', onClick: () => open(label)?.() }, swatch, label);
    });
    return h(
        'div',
        { class: 'table', id: 'stacked' },
        h('h3', {}, `${title}, by ${sizeLabel(recording).toLowerCase()}`),
        h('div', { class: 'legend', role: 'group', 'aria-label': 'Functions' }, ...legend),
        stacks(
            title,
            [sizeLabel(recording), title, 'All'],
            rows,
            (v) => tick(v, 'ns'),
        ),
        h(
            'p',
            { class: 'note' },
            'A bar is what the measured functions took themselves, without what they call. The part that widens from bar to bar does not scale.',
        ),
    );
}

/** The memory of the groups that have the most of it, over the sizes. */
function memoryChart(view: View, table: Table): Child {
    const { recording } = view;
    if (sizesOf(recording).length < 2 || column(table, 'memory_max') < 0) return null;
    const top = [...numbersOf(table, 'group', 'memory_max')]
        .sort((a, b) => b[1] - a[1])
        .slice(0, topFunctions)
        .map(([group]) => group);
    const found = new Map(
        recording.runs.map((run) => [run, numbersOf(tableOf(run, 'processes', view.node), 'group', 'memory_max')]),
    );
    const chart = sizeChart(
        recording,
        'Most memory over sizes, of the groups that have the most',
        'B',
        top.map((label) => ({ label, value: (run: Run) => found.get(run)?.get(label) })),
        'log',
        'All processes of a group together, at its highest. What rises as steeply as the size needs memory for each user.',
    );
    return chart && h('div', { class: 'grid wide' }, figure(chart));
}
