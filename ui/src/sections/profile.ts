// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The dyno authors
//
// Where time or memory goes: a flame graph of each profile, and the functions by their calls.

import { flame, fold } from '../flame';
import { h, type Child } from '../dom';
import { ofNode, tableNamed } from '../recording';
import { anyTable } from '../shape';
import { format } from '../units';
import type { Section, View } from '../view';

export const profile: Section = {
    id: 'profile',
    title: 'Profile',
    scope: 'run',
    render: ({ run, node }: View): Child[] => {
        if (!run) return [];
        const flames = run.profiles
            .filter((p) => ofNode(p, node))
            .flatMap((p) =>
                p.values.flatMap(({ name, unit }, which) => {
                    const root = fold(p, which);
                    if (root.value <= 0) return [];
                    const named = ['1', 'count'].includes(unit) || p.values.length > 1;
                    const what = `${p.title}: ${format(root.value, unit)}${named ? ` ${name}` : ''}`;
                    return [h('h3', {}, what), flame(root, what, unit)];
                }),
            );
        const table = tableNamed(run, 'profile');
        return [
            ...flames,
            flames.length > 0
                ? h(
                      'p',
                      { class: 'note' },
                      'As wide as its share; what a function calls stands below it. Click a frame to see it at full width, and one above it to go back; arrow keys go from frame to frame, Escape shows all.',
                  )
                : null,
            table ? anyTable(table, { empty: 'No function was seen.' }) : null,
        ];
    },
};
