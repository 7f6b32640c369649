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
            .flatMap((p) => {
                const root = fold(p);
                const { name, unit } = p.values[0] ?? { name: '', unit: '1' };
                if (root.value <= 0) return [];
                const what = ['1', 'count'].includes(unit) ? ` ${name}` : '';
                const whole = `${p.title}: ${format(root.value, unit)}${what}`;
                return [h('h3', {}, whole), flame(root, p.title, unit)];
            });
        const table = tableNamed(run, 'profile');
        return [
            ...flames,
            flames.length > 0
                ? h(
                      'p',
                      { class: 'note' },
                      'As wide as its share; what a function calls stands below it. Click a frame to see it at full width, and one above it to go back.',
                  )
                : null,
            table ? anyTable(table, { empty: 'No function was seen.' }) : null,
        ];
    },
};
