// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The dyno authors
//
// A closer look at one function or one group of processes: its values at every size, who calls the
// function, what the group calls. Each name in it leads on, and back.

import { figure, forgetDetached } from './chart';
import { absent, h, type Child } from './dom';
import {
    objects,
    runPlace,
    runTitle,
    sizeLabel,
    tableOf,
    type Cell,
    type Recording,
    type Row,
    type Run,
} from './recording';
import { columnOf, reordered } from './shape';
import { sizeChart, sizesOf } from './sizes';
import { choose, chosen } from './state';
import { tableView } from './table';
import { withBounds } from './uncertain';
import type { View } from './view';

type Kind = 'function' | 'group';

interface Subject {
    kind: Kind;
    name: string;
}

/** Which table holds the subject, by which column, and where its counterpart stands in `callers`. */
const places = {
    function: { table: 'functions', by: 'function', mine: 'function', other: 'processes' },
    group: { table: 'processes', by: 'group', mine: 'processes', other: 'function' },
} as const;

const trail: Subject[] = [];
let dialog: HTMLDialogElement | null = null;

/** The names that any run knows, once for each recording: there may be thousands. */
const known = new WeakMap<Recording, Partial<Record<Kind, Set<Cell>>>>();

function namesOf(recording: Recording, kind: Kind): Set<Cell> {
    const kinds = known.get(recording) ?? {};
    known.set(recording, kinds);
    const names = (kinds[kind] ??= new Set<Cell>());
    if (names.size > 0) return names;
    const { table, by, mine } = places[kind];
    for (const of of recording.runs.flatMap((run) => run.tables)) {
        const column = of.name === table ? by : of.name === 'callers' ? mine : null;
        const at = of.columns.findIndex((c) => c.name === column);
        if (at >= 0) for (const row of of.rows) names.add(row[at] ?? null);
    }
    return names;
}

/** What opens a closer look; null where the recording does not know the name. */
export function inspector(view: View, kind: Kind): (name: string) => (() => void) | null {
    const names = namesOf(view.recording, kind);
    return (name) => (names.has(name) ? () => look(view, { kind, name }) : null);
}

/** What the page's address says is open. */
export function reopen(view: View): void {
    const [, kind, name] = /^(function|group) (.*)$/s.exec(chosen('open') ?? '') ?? [];
    if (kind && name) inspector(view, kind as Kind)(name)?.();
}

function look(view: View, subject: Subject): void {
    if (!dialog) {
        dialog = h('dialog', { class: 'inspect', 'aria-labelledby': 'inspect-title' });
        dialog.addEventListener('close', () => {
            trail.length = 0;
            choose('open', null);
            dialog?.replaceChildren();
            forgetDetached();
        });
        // A click beside the box closes it.
        dialog.addEventListener('click', (event) => {
            if (event.target === dialog) dialog?.close();
        });
        document.body.append(dialog);
    }
    trail.push(subject);
    draw(view);
    if (!dialog.open) dialog.showModal();
}

function draw(view: View): void {
    const subject = trail.at(-1)!;
    choose('open', `${subject.kind} ${subject.name}`);
    const back = h('button', { type: 'button', class: 'plain-button' }, '← Back');
    back.hidden = trail.length < 2;
    back.addEventListener('click', () => {
        trail.pop();
        draw(view);
    });
    const close = h('button', { type: 'button', class: 'plain-button' }, 'Close');
    close.addEventListener('click', () => dialog?.close());
    dialog!.replaceChildren(
        h(
            'div',
            { class: 'inspect-body' },
            h(
                'div',
                { class: 'inspect-head' },
                h('p', { class: 'eyebrow' }, subject.kind === 'function' ? 'Function' : 'Process group'),
                h('span', {}, back, close),
            ),
            h('h2', { id: 'inspect-title', tabindex: -1 }, subject.name),
            ...content(view, subject).filter((c): c is Node => c instanceof Node),
        ),
    );
    forgetDetached();
    dialog!.scrollTop = 0;
    document.getElementById('inspect-title')?.focus();
}

function content(view: View, subject: Subject): Child[] {
    const rows = new Map<Run, Row>();
    for (const run of view.recording.runs) {
        const row = find(view, run, subject);
        if (row) rows.set(run, row);
    }
    return [
        growth(view, subject),
        chart(view, subject, rows),
        overRuns(view, subject, rows),
        counterparts(view, subject),
    ];
}

function find(view: View, run: Run, { kind, name }: Subject): Row | undefined {
    const { table, by } = places[kind];
    const of = tableOf(run, table, view.node);
    const column = of?.columns.findIndex((c) => c.name === by) ?? -1;
    const row = of?.rows.find((r) => r[column] === name);
    return of && row && objects({ ...of, rows: [row] })[0];
}

function growth({ recording }: View, { kind, name }: Subject): Child {
    const table = recording.tables.find((t) => t.name === 'growth');
    const kinds = kind === 'function' ? ['function'] : ['process', 'group'];
    const column = (of: string) => table?.columns.findIndex((c) => c.name === of) ?? -1;
    const [by, what, text] = [column('name'), column('kind'), column('text')];
    const row = table?.rows.find((r) => r[by] === name && kinds.includes(String(r[what])));
    return row && typeof row[text] === 'string' ? h('p', { class: 'lead' }, row[text]) : null;
}

function chart(view: View, { kind }: Subject, rows: Map<Run, Row>): Child {
    if (sizesOf(view.recording).length < 2) return null;
    const [column, unit, title] =
        kind === 'function'
            ? (['time_per_call', 'ns/call', 'Time per call over sizes'] as const)
            : (['memory_max', 'B', 'Most memory over sizes'] as const);
    const of = (name: string) => (run: Run) => rows.get(run)?.[name] as number | null | undefined;
    const drawn = sizeChart(view.recording, title, unit, [
        { label: title, value: of(column), low: of(`${column}_low`), high: of(`${column}_high`) },
    ]);
    return drawn && h('div', { class: 'grid wide' }, figure(drawn));
}

/** The subject's values, a row a run. */
function overRuns(view: View, { kind }: Subject, rows: Map<Run, Row>): Child {
    const { table, by } = places[kind];
    const sample = [...rows.keys()].map((run) => tableOf(run, table, view.node))[0];
    if (!sample) return null;
    const columns = sample.columns.filter((c) => c.name !== by);
    const told = withBounds({
        ...sample,
        name: `inspect-${kind}`,
        columns: [columnOf('run', sizeLabel(view.recording)), ...columns],
        rows: [...rows].map(([run, row]) => [
            runTitle(view.recording, run),
            ...columns.map((c) => row[c.name] ?? null),
        ]),
        truncated: 0,
    });
    return tableView(told.table, { show: told.show, heading: 'At every size', empty: '' });
}

/** Who calls the function, or what the group calls, in the chosen run. */
function counterparts(view: View, { kind, name }: Subject): Child {
    const { mine, other } = places[kind];
    const callers = view.run ? tableOf(view.run, 'callers', view.node) : undefined;
    const heading = kind === 'function' ? 'Called by' : 'Calls';
    if (!callers || !view.run)
        return absent('Which processes call which function was not recorded in this run.');
    const by = callers.columns.findIndex((c) => c.name === mine);
    const others = callers.columns.map((c) => c.name).filter((c) => c !== mine && c !== other);
    const rows = callers.rows.filter((r) => r[by] === name);
    const where = runPlace(view.recording, view.run);
    return tableView(
        { ...reordered({ ...callers, rows }, [other, ...others]), name: `inspect-${kind}-callers` },
        {
            heading: `${heading}, at ${where}`,
            sortBy: 'own_time',
            empty: 'Nothing was seen in this run.',
            open: { [other]: inspector(view, kind === 'function' ? 'group' : 'function') },
        },
    );
}
