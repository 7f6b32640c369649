// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The dyno authors
//
// What was measured inside the target: functions, their growth over the sizes, processes, and which
// kind of process called which function.

import { figure } from '../chart';
import { absent, h, type Child } from '../dom';
import { counterpart, ofNode, type Cell, type Run, type Table } from '../recording';
import { seriesGrid } from '../series';
import { sizeChart, sizesOf } from '../sizes';
import { tableView } from '../table';
import { format } from '../units';
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
        return [
            growthChart(view, table),
            tableView(table, {
                sortBy: 'own_time',
                empty: 'None of the measured functions was called in this run.',
            }),
            callers
                ? tableView(callers, {
                      sortBy: 'own_time',
                      heading: 'Callers',
                      empty: 'No caller was seen.',
                  })
                : null,
        ];
    },
};

export const growth: Section = {
    id: 'growth',
    title: 'Growth',
    scope: 'recording',
    render: ({ recording }: View): Child[] => {
        const table = recording.tables.find((t) => t.name === 'growth');
        if (!table) {
            return [
                absent(
                    sizesOf(recording).length < 3
                        ? 'Growth is estimated from three sizes and more.'
                        : 'The recording has no estimate of growth.',
                ),
            ];
        }
        return [
            h(
                'p',
                { class: 'lead' },
                'How a figure grows with the size: an exponent of 0 stays the same, 1 grows in proportion, 2 with the square. Low and High are its confidence interval.',
            ),
            // In the recording's order: what surely grows and matters comes first.
            tableView(withoutColumns(table, ['kind', 'unit', 'points', 'text']), {
                show: growthCells(table),
                heading: 'Exponents',
                empty: 'No figure had enough values to estimate its growth.',
            }),
        ];
    },
};

export const processes: Section = {
    id: 'processes',
    title: 'Processes',
    scope: 'run',
    render: ({ run, node }: View): Child[] => {
        if (!run) return [absent('No run was finished.')];
        const table = tableOf(run, 'processes', node);
        const series = run.series.filter((s) => s.group === 'processes' && ofNode(s, node));
        return [
            table
                ? tableView(table, {
                      sortBy: 'memory_max',
                      empty: 'No process called a measured function in this run.',
                  })
                : absent(
                      'No process was discovered: none called a measured function, or no pattern was given.',
                  ),
            seriesGrid(series),
        ];
    },
};

/** Exponents with as many digits as they deserve; each row's values in its own unit. */
function growthCells(table: Table): Record<string, (value: number, row: Cell[]) => string> {
    const exponent = (value: number) => value.toFixed(2).replace('-', '−');
    const name = column(table, 'name');
    const units = new Map(table.rows.map((row) => [row[name], row[column(table, 'unit')]]));
    const value = (number: number, row: Cell[]) => format(number, String(units.get(row[0]!) ?? '1'));
    return { exponent, low: exponent, high: exponent, smallest: value, largest: value };
}

function withoutColumns(table: Table, names: string[]): Table {
    const kept = table.columns.map((c, i) => (names.includes(c.name) ? -1 : i)).filter((i) => i >= 0);
    return {
        ...table,
        columns: kept.map((i) => table.columns[i]!),
        rows: table.rows.map((row) => kept.map((i) => row[i] ?? null)),
    };
}

function tableOf(run: Run, name: string, node: string | null): Table | undefined {
    return run.tables.find((t) => t.name === name && ofNode(t, node));
}

/** Time per call of the functions that take the most, over the sizes. */
function growthChart(view: View, table: Table): Child {
    const { recording } = view;
    const name = column(table, 'function');
    const time = column(table, 'own_time');
    if (sizesOf(recording).length < 2 || name < 0 || time < 0) return null;
    const top = [...table.rows]
        .sort((a, b) => Number(b[time] ?? 0) - Number(a[time] ?? 0))
        .slice(0, topFunctions)
        .map((row) => String(row[name]));
    const found = perCall(view, top);
    const lines = top.map((label) => ({ label, value: (run: Run) => found.get(run)?.get(label) }));
    const chart = sizeChart(
        recording,
        'Time per call over sizes, of the functions that take the most',
        'ns/call',
        lines,
        'log',
    );
    return chart && h('div', { class: 'grid wide' }, figure(chart));
}

function column(table: Table, name: string): number {
    return table.columns.findIndex((c) => c.name === name);
}

/** One pass over each run's table, however many functions it has. */
function perCall(view: View, wanted: string[]): Map<Run, Map<string, number>> {
    const result = new Map<Run, Map<string, number>>();
    for (const run of view.recording.runs) {
        const node = view.run ? counterpart(view.node, view.run, run) : view.node;
        const table = tableOf(run, 'functions', node);
        if (!table) continue;
        const [name, value] = [column(table, 'function'), column(table, 'time_per_call')];
        const values = new Map<string, number>();
        for (const row of table.rows) {
            const label = String(row[name]);
            if (wanted.includes(label) && typeof row[value] === 'number')
                values.set(label, row[value]);
        }
        result.set(run, values);
    }
    return result;
}
