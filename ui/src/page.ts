// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The dyno authors
//
// The page: heading, a bar that stays in sight (sections, run, node, theme), and the sections.

import { forgetDetached } from './chart';
import { reopen } from './inspect';
import { choose as remember, chosen, showSection, startState } from './state';
import { append, dropdown, h } from './dom';
import { nodesOf, objects, runPlace, runTitle, sizeLabel, tableNamed, type Recording, type Run } from './recording';
import { comparison, rounds, squeeze } from './sections/bench';
import { changes, conditions, sideBySide } from './sections/compare';
import { events } from './sections/events';
import { glance } from './sections/glance';
import { inputs } from './sections/inputs';
import { load, overSizes } from './sections/load';
import { pipeline } from './sections/pipeline';
import { profile } from './sections/profile';
import { facts, measured, summary } from './sections/summary';
import {
    cluster,
    custom,
    everything,
    os,
    other,
    otherOfBenchmarks,
    otherOfComparisons,
    vm,
} from './sections/system';
import { functions, growth, processes } from './sections/tables';
import { themeButton } from './theme';
import type { Section, View } from './view';

const ofTests: Section[] = [
    ...[summary, overSizes, load, functions, growth, processes, profile, custom, events, vm, os],
    ...[changes, other],
];
const ofRecords: Section[] = [
    ...[summary, glance, pipeline, profile, functions, processes, custom, other, events, vm, os],
    ...[growth, changes, measured],
];
const ofBenchmarks: Section[] = [
    summary,
    inputs,
    comparison,
    rounds,
    squeeze,
    cluster,
    profile,
    growth,
    changes,
    events,
    otherOfBenchmarks,
];
const ofComparisons: Section[] = [summary, changes, profile, sideBySide, conditions, otherOfComparisons];
const ofProfiles: Section[] = [summary, profile, everything, events, measured];
const ofServers: Section[] = [summary, glance, pipeline, everything, events, profile, measured];
const ofOthers: Section[] = [summary, everything, events, profile];

const byCommand: Record<string, Section[]> = {
    test: ofTests,
    record: ofRecords,
    bench: ofBenchmarks,
    compare: ofComparisons,
    profile: ofProfiles,
    servers: ofServers,
    doctor: [summary, glance, everything, events, measured],
};

/** More runs than this are chosen from a list instead of side by side. */
const buttonsUpTo = 6;

export function page(recording: Recording): HTMLElement[] {
    startState();
    const view: View = { recording, run: null, node: chosen('node') };
    choose(view, recording.runs.find((r) => r.id === chosen('run')) ?? lastRun(recording));
    // What is compared may be profiles: then their difference comes first.
    const sections =
        recording.compared?.new.command === 'profile'
            ? [profile, ...ofComparisons.filter((s) => s !== profile)]
            : (byCommand[recording.command] ?? ofOthers);
    const places = sections.map((section) => place(section, view));
    const nodeChoice = h('span');
    const redraw = () => {
        for (const p of places) if (p.section.scope === 'run') p.draw();
        nodeChoice.replaceChildren(...nodeList(view, redraw));
        forgetDetached();
    };
    for (const p of places) p.draw();
    nodeChoice.replaceChildren(...nodeList(view, redraw));
    const header = h(
        'header',
        { class: 'masthead' },
        h('p', { class: 'eyebrow' }, `dyno ${recording.command}`.trim()),
        h('h1', {}, titleOf(recording)),
        h('p', { class: 'facts' }, facts(recording)),
    );
    const nav = h('nav', { 'aria-label': 'Sections' }, ...places.map((p) => p.link));
    const bar = h(
        'div',
        { class: 'bar-top' },
        h(
            'div',
            { class: 'inner' },
            nav,
            themeButton(),
            h('div', { class: 'choices' }, ...runChoice(view, redraw), nodeChoice),
        ),
    );
    // Once all of it is on the page.
    queueMicrotask(() => {
        showSection();
        reopen(view);
    });
    return [header, bar, h('main', {}, ...places.map((p) => p.element)), footer(recording)];
}

/** A benchmark has no name of its own: it is called by its codes. */
function titleOf({ command, name, runs }: Recording): string {
    const codes = objects(runs[0] && tableNamed(runs[0], 'codes')).map((row) => String(row.code));
    if (command !== 'bench' || codes.length === 0) return name;
    const all = codes.join(', ');
    if (all.length <= 80) return all;
    return codes.length > 1 ? `${codes[0]} and ${codes.length - 1} more` : codes[0]!;
}

/** The largest size has the most to say. */
function lastRun(recording: Recording): Run | null {
    return recording.runs.reduce<Run | null>(
        (best, run) => (best === null || (run.size ?? 0) >= (best.size ?? 0) ? run : best),
        null,
    );
}

function choose(view: View, run: Run | null): void {
    view.run = run;
    const nodes = run ? nodesOf(run) : [];
    if (view.node === null || !nodes.includes(view.node)) view.node = nodes[0] ?? null;
}

interface Place {
    section: Section;
    element: HTMLElement;
    link: HTMLElement;
    draw: () => void;
}

function place(section: Section, view: View): Place {
    const element = h('section', { id: section.id, 'aria-labelledby': `${section.id}-title` });
    const link = h('a', { href: `#${section.id}` }, section.short ?? section.title);
    const draw = () => {
        const of =
            section.scope === 'run' && view.run && view.recording.runs.length > 1
                ? h('span', { class: 'of' }, `at ${runPlace(view.recording, view.run)}`)
                : null;
        element.replaceChildren(h('h2', { id: `${section.id}-title` }, section.title, of));
        append(element, section.render(view));
        element.hidden = link.hidden = element.childElementCount < 2;
    };
    return { section, element, link, draw };
}

function runChoice(view: View, redraw: () => void): HTMLElement[] {
    const { recording } = view;
    if (recording.runs.length < 2) return [];
    const options = recording.runs.map((run): Option => [run.id, runTitle(recording, run)]);
    return [
        choice('run', sizeLabel(recording), options, view.run?.id ?? '', (id) => {
            remember('run', id === lastRun(recording)?.id ? null : id);
            choose(view, recording.runs.find((r) => r.id === id) ?? null);
            redraw();
        }),
    ];
}

/** Nodes may be named anew in each run, so the list is that of the chosen run. */
function nodeList(view: View, redraw: () => void): HTMLElement[] {
    const nodes = view.run ? nodesOf(view.run) : [];
    if (nodes.length < 2) return [];
    return [
        list(
            'node',
            'Node',
            nodes.map((n): Option => [n, n]),
            view.node ?? '',
            (name) => {
                view.node = name;
                remember('node', name === nodes[0] ? null : name);
                redraw();
                document.getElementById('node')?.focus();
            },
        ),
    ];
}

type Option = [value: string, text: string];

function choice(
    name: string,
    label: string,
    options: Option[],
    now: string,
    pick: (v: string) => void,
): HTMLElement {
    if (options.length > buttonsUpTo) return list(name, label, options, now, pick);
    const buttons = options.map(([value, text], index) => {
        const id = `${name}-${index}`;
        const input = h('input', { type: 'radio', name, id, value, checked: value === now });
        input.addEventListener('change', () => pick(value));
        return h('span', {}, input, h('label', { for: id }, text));
    });
    return h('fieldset', { class: 'segments' }, h('legend', {}, label), ...buttons);
}

function list(
    name: string,
    label: string,
    options: Option[],
    now: string,
    pick: (v: string) => void,
): HTMLElement {
    return h('label', { class: 'list' }, h('span', {}, label), dropdown({ id: name }, options, now, pick));
}

function footer(recording: Recording): HTMLElement {
    const version = recording.environment.dyno_version;
    return h(
        'footer',
        {},
        `Made by dyno${version ? ` ${version}` : ''} from one recording, which this file contains. ` +
            'Your choices are in the address: a link to it shows the same. ' +
            'Drag over a chart to zoom, double-click to zoom out.',
    );
}
