// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The dyno authors
//
// A benchmark over several inputs or cases: each code at each input, and how it grows.

import { figure } from '../chart';
import { framed, h, type Child } from '../dom';
import { objects, tableNamed, type Recording, type Row, type Run } from '../recording';
import { sizeChart } from '../sizes';
import { format, raw, ratio } from '../units';
import type { Section, View } from '../view';

interface Block {
    name: string | null;
    runs: { run: Run; input: string }[];
}

/** The runs by case; those without one are of one. */
function blocks(recording: Recording): Block[] {
    const found = new Map<string | null, Block>();
    for (const run of recording.runs) {
        const name = typeof run.labels.case === 'string' ? run.labels.case : null;
        const input = typeof run.labels.input === 'string' ? run.labels.input : run.id;
        const block = found.get(name) ?? { name, runs: [] };
        block.runs.push({ run, input });
        found.set(name, block);
    }
    return [...found.values()];
}

export const inputs: Section = {
    id: 'inputs',
    title: 'Inputs',
    scope: 'recording',
    render: ({ recording }: View): Child[] =>
        recording.runs.length < 2
            ? []
            : blocks(recording)
                  .filter((b) => b.runs.length > 1)
                  .flatMap((b) => block(recording, b)),
};

function block(recording: Recording, { name, runs }: Block): Child[] {
    const rows = runs.map(({ run }) => objects(tableNamed(run, 'codes')));
    // As they were given, not the fastest first: a code has the same colour here as in the rounds.
    const given = runs.flatMap(({ run }) =>
        run.series.filter((s) => s.name === 'bench.time').map((s) => String(s.labels.code)),
    );
    const codes = [...new Set([...given, ...rows.flat().map((r) => String(r.code))])];
    const cell = (code: string, of: Row[]) => {
        const row = of.find((r) => r.code === code);
        const value = row?.time_per_call;
        if (!row || typeof value !== 'number') return h('td', { class: 'number null' }, '–');
        const fastest = of[0] === row;
        const note =
            row.verdict === 'undecided'
                ? 'not decided'
                : row.verdict === 'same'
                  ? 'same'
                  : `${ratio(row.ratio as number)}×`;
        return h(
            'td',
            { class: fastest ? 'number fastest' : 'number', title: raw(value, 'ns/call') },
            format(value, 'ns/call'),
            of.length > 1 ? h('span', { class: 'beside' }, fastest ? 'fastest' : note) : null,
        );
    };
    const fits = objects(recording.tables.find((t) => t.name === 'growth'));
    const growth = (code: string) =>
        fits.find(
            (r) => r.kind === 'code' && (r.name === code || r.name === `${name}: ${code}`),
        );
    const numeric = runs.every(({ input }) => /^[\d_]+$/.test(input));
    const chart = numeric
        ? sizeChart(
              { ...recording, runs: runs.map((r) => r.run), parameters: { size_label: 'Input' } },
              'Time per call by the size of the input',
              'ns/call',
              codes.map((code) => {
                  const of = (column: string) => (run: Run) => {
                      const row = objects(tableNamed(run, 'codes')).find((r) => r.code === code);
                      return row?.[column] as number | null | undefined;
                  };
                  return {
                      label: code,
                      value: of('time_per_call'),
                      low: of('low'),
                      high: of('high'),
                  };
              }),
              'log',
          )
        : null;
    const label = name ?? 'Time per call by input';
    return [
        h('h3', {}, label),
        framed(
            label,
            'matrix',
            [
                h('th', { scope: 'col' }, 'Code'),
                ...runs.map(({ input }) => h('th', { scope: 'col', class: 'number' }, input)),
                fits.length > 0 ? h('th', { scope: 'col' }, 'Growth') : null,
            ],
            codes.map((code) =>
                h(
                    'tr',
                    {},
                    h('th', { scope: 'row' }, code),
                    ...rows.map((of) => cell(code, of)),
                    fits.length > 0 ? h('td', {}, String(growth(code)?.text ?? '')) : null,
                ),
            ),
        ),
        chart && h('div', { class: 'grid wide' }, figure({ ...chart, height: 280 })),
    ];
}
