// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The dyno authors
//
// Where time or memory goes: the profiles as a flame graph, the functions by their samples, and where
// processes wait. Of a comparison the difference of both recordings.

import { flames, type Graph } from '../flame';
import { difference, functionsOf, stacksOf, total, type Stack } from '../flametree';
import { h, type Child } from '../dom';
import { ofNode, sameRuns, tableNamed, type Cell, type Profile, type Recording } from '../recording';
import { anyTable, columnOf } from '../shape';
import { tableView } from '../table';
import { withBounds } from '../uncertain';
import { format } from '../units';
import type { Section, View } from '../view';

/** Each value of each profile. */
function graphs(profiles: Profile[]): Graph[] {
    return profiles.flatMap((p) =>
        p.values.flatMap(({ name, unit }, which) => {
            const stacks = stacksOf(p, which);
            if (stacks.length === 0) return [];
            const plain = ['1', 'count'].includes(unit);
            const what = p.values.length > 1 && !plain ? `${p.title}, ${name}` : p.title;
            return [{ title: `${what}: ${format(total(stacks), unit)}${plain ? ` ${name}` : ''}`, unit, stacks }];
        }),
    );
}

const reading = {
    one: 'How to read it: a frame is as wide as its share of the whole, and what a function calls stands below it. Look for wide frames with little below them. Click a frame to see it at full width, one above it to go back. Colours tell modules apart.',
    compared:
        'How to read it: red functions have a greater share of the whole now, blue ones a smaller one; the strength of the colour tells how much. A frame is as wide as the mean of both shares, so what is new or gone is there, too.',
};

/** What was spent in each function, of the stacks that the graph shows. */
function functionTable(graph: Graph, stacks: Stack[], look: (name: string) => void): Child {
    const compared = graph.compared === true;
    const column = (name: string, title: string, help: string) =>
        columnOf(name, title, compared ? 'ratio' : graph.unit, help);
    const all = total(stacks) || 1;
    return tableView(
        {
            name: 'stacks',
            title: 'Functions in these stacks',
            node: null,
            sort: { column: compared ? 'change' : 'own', descending: true },
            columns: [
                columnOf('function', 'Function'),
                ...(compared
                    ? [
                          column('before', 'Itself, before', 'The share of all that it had itself in the old recording.'),
                          column('own', 'Itself, now', 'The share of all that it has itself in the new recording.'),
                          column('change', 'Change', 'By how much its share grew.'),
                      ]
                    : [
                          column('own', 'Itself', 'Without what it calls.'),
                          columnOf('share', 'Share', 'ratio', 'Of all that is shown.'),
                          column('all', 'With what it calls', 'Recursive calls count once.'),
                      ]),
            ],
            rows: functionsOf(stacks)
                .slice(0, 2000)
                .map(({ name, own, all: whole, change }): Cell[] =>
                    compared ? [name, own - change / 2, own + change / 2, change] : [name, own, own / all, whole],
                ),
            truncated: 0,
        },
        {
            open: { function: (name) => () => look(name) },
            show: { change: (value) => `${value > 0 ? '+' : ''}${format(value, 'ratio')}` },
            empty: 'No function was seen.',
        },
    );
}

export const profile: Section = {
    id: 'profile',
    title: 'Profile',
    scope: 'run',
    render: ({ recording, run, node }: View): Child[] => {
        if (recording.compared) return compared(recording);
        if (!run) return [];
        const known = graphs(run.profiles.filter((p) => ofNode(p, node)));
        const found = tableNamed(run, 'profile');
        const { table, show } = found ? withBounds(found) : { table: undefined, show: {} };
        const tables = run.tables.filter((t) => t.name === 'waiting' && ofNode(t, node));
        return [
            known.length > 0 ? h('p', { class: 'note' }, reading.one) : null,
            known.length > 0
                ? flames(known, (graph, stacks, look) => [
                      table
                          ? anyTable(table, {
                                show,
                                empty: '',
                                open: { function: (name) => () => look(name) },
                            })
                          : functionTable(graph, stacks, look),
                  ])
                : table && anyTable(table, { show, empty: 'No function was seen.' }),
            recording.command === 'bench' && table
                ? h(
                      'p',
                      { class: 'note' },
                      'Believe the share of the samples: own time is traced, which makes functions that are called often look slower than they are.',
                  )
                : null,
            ...tables.map((t) => anyTable(t, { empty: 'No process was seen waiting.' })),
        ];
    },
};

function compared(recording: Recording): Child[] {
    const { old, new: now } = recording.compared!;
    const several = now.runs.length > 1;
    const only = old.runs.length === 1 && now.runs.length === 1;
    const known = (only ? [[old.runs[0]!, now.runs[0]!] as const] : sameRuns(old, now))
        .reverse()
        .flatMap(([was, run]) =>
            run.profiles.flatMap((profile) => {
                const other = was.profiles.find((p) => p.name === profile.name && p.title === profile.title);
                return other
                    ? profile.values.flatMap(({ name }, which): Graph[] => {
                          const [before, after] = [stacksOf(other, which), stacksOf(profile, which)];
                          if (before.length === 0 || after.length === 0) return [];
                          const what = [profile.title, profile.values.length > 1 && name, several && run.id];
                          return [
                              {
                                  title: what.filter(Boolean).join(', '),
                                  unit: 'ratio',
                                  stacks: difference(before, after),
                                  compared: true,
                              },
                          ];
                      })
                    : [];
            }),
        );
    if (known.length === 0) return [];
    return [
        h('p', { class: 'note' }, reading.compared),
        flames(known, (graph, stacks, look) => [functionTable(graph, stacks, look)]),
    ];
}
