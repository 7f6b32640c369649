// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The dyno authors
//
// Which functions take the time of a benchmarked code: its sampled stacks, and its calls.

import { flame, fold } from '../flame';
import { h, type Child } from '../dom';
import { objects, tableNamed } from '../recording';
import { tableView } from '../table';
import type { Section, View } from '../view';

export const profile: Section = {
    id: 'profile',
    title: 'Profile',
    scope: 'run',
    render: ({ run }: View): Child[] => {
        if (!run) return [];
        const stacks = objects(tableNamed(run, 'stacks'));
        const codes = [...new Set(stacks.map((r) => String(r.code ?? '')))];
        const flames = codes.flatMap((code) => {
            const mine = stacks
                .filter((r) => String(r.code ?? '') === code && typeof r.samples === 'number')
                .map((r) => ({ stack: String(r.stack ?? ''), samples: Number(r.samples) }));
            const root = fold(mine);
            if (root.samples === 0) return [];
            const label = `Sampled stacks${code && ` of ${code}`}`;
            return [h('h3', {}, `${label}, ${root.samples} samples`), flame(root, label)];
        });
        const table = tableNamed(run, 'profile');
        return [
            ...flames,
            flames.length > 0
                ? h(
                      'p',
                      { class: 'note' },
                      'As wide as its share of the samples; what a function calls stands below it. Click a frame to see it at full width, and one above it to go back.',
                  )
                : null,
            table
                ? tableView(table, { sortBy: 'share', empty: 'No function was seen.' })
                : null,
        ];
    },
};
