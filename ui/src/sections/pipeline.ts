// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The dyno authors
//
// The stages of a pipeline as a picture: what flows between them, how busy each is, and where events
// wait.

import { h, type Child } from '../dom';
import { lineWidth, places, type Flow } from '../flow';
import { num, objects, ofNode, type Row, type Run } from '../recording';
import { format } from '../units';
import type { Section, View } from '../view';

const [boxWidth, boxHeight, gapX, gapY, margin] = [216, 92, 104, 26, 6];
const namespace = 'http://www.w3.org/2000/svg';
/** Longer names are cut; the title has them whole. */
const mostCharacters = 26;

export const pipeline: Section = {
    id: 'pipeline',
    title: 'Pipeline',
    scope: 'run',
    render: ({ run, node }: View): Child[] => {
        const stages = run ? rowsOf(run, 'stages', node) : [];
        if (!run || stages.length === 0) return [];
        const flows = flowsOf(rowsOf(run, 'flows', node), stages);
        const said = rowsOf(run, 'pipeline', node).at(-1)?.text;
        return [
            said ? h('p', { class: 'lead' }, String(said)) : null,
            h(
                'div',
                { class: 'scroll', tabindex: 0, role: 'region', 'aria-label': 'The stages of the pipeline' },
                picture(stages, flows, rowsOf(run, 'servers', node)),
            ),
            h(
                'p',
                { class: 'note' },
                'A line is events from stage to stage, the wider the more. The bar of a stage is the share of the time in which it worked.',
            ),
        ];
    },
};

function rowsOf(run: Run, name: string, node: string | null): Row[] {
    return run.tables.filter((t) => t.name === name && ofNode(t, node)).flatMap((t) => objects(t));
}

/** Older recordings only say who gives to whom. */
function flowsOf(rows: Row[], stages: Row[]): Flow[] {
    if (rows.length > 0)
        return rows.map((r) => ({ from: String(r.from), to: String(r.to), rate: num(r.rate) }));
    return stages.flatMap((s) =>
        String(s.gives_to ?? '')
            .split(', ')
            .filter((to) => to !== '')
            .map((to) => ({ from: String(s.stage), to, rate: null })),
    );
}

type Attributes = Record<string, string | number>;

function svg(tag: string, attributes: Attributes, ...children: (Node | string)[]): SVGElement {
    const element = document.createElementNS(namespace, tag);
    for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, String(value));
    element.append(...children);
    return element;
}

function picture(stages: Row[], flows: Flow[], servers: Row[]): SVGElement {
    // What was not measured itself is drawn, too, if events go there.
    const known = new Map(stages.map((s) => [String(s.stage), s]));
    const names = [...new Set([...known.keys(), ...flows.flatMap((f) => [f.from, f.to])])];
    const all = places(names, flows);
    const at = new Map(
        all.map((p) => [
            p.name,
            { x: margin + p.column * (boxWidth + gapX), y: margin + p.row * (boxHeight + gapY) },
        ]),
    );
    const width = 2 * margin + (Math.max(...all.map((p) => p.column)) + 1) * (boxWidth + gapX) - gapX;
    const height = 2 * margin + (Math.max(...all.map((p) => p.row)) + 1) * (boxHeight + gapY) - gapY;
    const most = Math.max(0, ...flows.map((f) => f.rate ?? 0));
    const words = flows.map((f) => `${f.from} gives ${format(f.rate, '1/s')} to ${f.to}`).join('; ');
    return svg(
        'svg',
        { class: 'pipeline', width, height, viewBox: `0 0 ${width} ${height}`, role: 'img', 'aria-label': words },
        ...flows.map((f) => arrow(f, at.get(f.from)!, at.get(f.to)!, most)),
        ...all.map(({ name }) =>
            box(name, known.get(name), servers.find((s) => s.server === name), at.get(name)!),
        ),
    );
}

interface Point {
    x: number;
    y: number;
}

function arrow({ from, to, rate }: Flow, start: Point, end: Point, most: number): SVGElement {
    const [x0, y0] = [start.x + boxWidth, start.y + boxHeight / 2];
    const [x1, y1] = [end.x, end.y + boxHeight / 2];
    const bend = Math.max(40, (x1 - x0) / 2);
    const path = `M${x0} ${y0} C${x0 + bend} ${y0} ${x1 - bend} ${y1} ${x1} ${y1}`;
    const label = rate === null ? '' : format(rate, '1/s');
    return svg(
        'g',
        { class: 'flow' },
        svg('title', {}, `${from} to ${to}${label === '' ? '' : `: ${label}`}`),
        svg('path', { d: path, 'stroke-width': lineWidth(rate, most) }),
        svg('text', { x: (x0 + x1) / 2, y: (y0 + y1) / 2 - 9, 'text-anchor': 'middle' }, label),
    );
}

function box(name: string, stage: Row | undefined, server: Row | undefined, { x, y }: Point): SVGElement {
    const limits = stage?.note === 'bottleneck';
    const busy = num(stage?.busy);
    const [left, inner] = [x + 12, boxWidth - 24];
    const copies = (num(stage?.processes) ?? 1) > 1 ? ` ×${stage!.processes}` : '';
    const room = mostCharacters - copies.length;
    const short = name.length > room ? `${name.slice(0, room - 1)}…` : name;
    return svg(
        'g',
        { class: limits ? 'stage limit' : 'stage' },
        svg('title', {}, [name, ...details(stage, server)].join('\n')),
        svg('rect', { class: 'box', x, y, width: boxWidth, height: boxHeight, rx: 6 }),
        svg('text', { class: 'name', x: left, y: y + 23 }, short + copies),
        svg('text', { x: left, y: y + 42 }, busyWords(stage, busy, limits)),
        svg('rect', { class: 'whole', x: left, y: y + 50, width: inner, height: 6, rx: 3 }),
        ...(busy === null
            ? []
            : [svg('rect', { class: 'worked', x: left, y: y + 50, width: inner * Math.min(1, busy), height: 6, rx: 3 })]),
        svg('text', { x: left, y: y + 77 }, waitingWords(stage, server)),
    );
}

function busyWords(stage: Row | undefined, busy: number | null, limits: boolean): string {
    if (!stage) return 'not measured';
    const words = busy === null ? String(stage.kind ?? '') : `${format(busy, 'ratio')} busy`;
    return limits ? `${words}: the bottleneck` : words;
}

/** What waits in front of a stage, and what it has lost. */
function waitingWords(stage: Row | undefined, server: Row | undefined): string {
    const [buffered, lost, queue] = [num(stage?.buffered), num(stage?.discarded), num(server?.queue_max)];
    return [
        queue !== null && (queue === 0 ? 'no queue' : `queue up to ${format(queue, 'count')}`),
        buffered !== null && buffered > 0 && `${format(buffered, 'count')} buffered`,
        lost !== null && lost > 0 && `${format(lost, 'count')} lost`,
    ]
        .filter(Boolean)
        .slice(0, 2)
        .join(', ');
}

function details(stage: Row | undefined, server: Row | undefined): string[] {
    if (!stage) return ['not measured'];
    const of: [string, unknown, string][] = [
        ['Events in', stage.events_in, '1/s'],
        ['Events out', stage.events_out, '1/s'],
        ['Busy', stage.busy, 'ratio'],
        ['Outstanding demand', stage.outstanding, 'count'],
        ['Buffered', stage.buffered, 'count'],
        ['Discarded', stage.discarded, 'count'],
        ['Longest queue', server?.queue_max, 'count'],
    ];
    return of.filter(([, v]) => num(v) !== null).map(([title, v, unit]) => `${title}: ${format(num(v), unit)}`);
}
