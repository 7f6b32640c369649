// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The dyno authors
//
// A flame graph to read: one canvas, so that thousands of frames move at once, with what was chosen
// of it above: which profile, which processes, from which end, and around which function.

import { append, dropdown, h, type Child } from './dom';
import {
    bottomUp,
    boxAt,
    labelsOf,
    layout,
    matches,
    pathTo,
    sandwich,
    shareOf,
    topDown,
    total,
    type Box,
    type Frame,
    type Stack,
} from './flametree';
import { styleColour } from './palette';
import { choose, chosen } from './state';
import { onThemeChange } from './theme';
import { format, share } from './units';

export interface Graph {
    title: string;
    unit: string;
    stacks: Stack[];
    /** Of two recordings: the values are shares. */
    compared?: boolean;
}

/** Frames narrower than this cannot be seen. */
const leastPixels = 1.5;
const colours = 6;
const font = '12px ui-monospace, Menlo, Consolas, "DejaVu Sans Mono", monospace';

interface Painter {
    paint: () => void;
    /** Paints where the width is another one. */
    fit: () => void;
}

const painters = new Map<Element, Painter>();
onThemeChange(() => painters.forEach(({ paint }) => paint()));
const widths = new ResizeObserver((entries) => {
    for (const { target } of entries) painters.get(target)?.fit();
});

/** The style's colours while a graph is painted: asking for them thousands of times takes long. */
const palette = new Map<string, string>();

function colourOf(name: string): string {
    const known = palette.get(name) ?? styleColour(name);
    palette.set(name, known);
    return known;
}

/** Functions of one module have one colour. */
function moduleColour(name: string): string {
    let sum = 0;
    // `lists:sort/1`, or `Shop.Cart.price/1`.
    const end = name.includes(':') ? name.indexOf(':') : name.lastIndexOf('.');
    for (let i = 0; i < end; i++) sum = (sum * 31 + name.charCodeAt(i)) % 9973;
    return colourOf(`line-${sum % colours}`);
}

/** The colour of a frame, and how strong it is: of two recordings red grew, blue shrank. */
function paintOf({ name, label, value, change }: Frame, compared: boolean): [string, number] {
    if (compared && Math.abs(change) >= 0.001)
        return [colourOf(change > 0 ? 'grew' : 'shrank'), 0.2 + 0.7 * Math.min(1, Math.abs(change) / (2 * value))];
    if (compared || label || name.startsWith('(')) return [colourOf('muted'), 0.2];
    return [moduleColour(name), 0.42];
}

function select(label: string, options: [value: string, text: string][], now: string, pick: (v: string) => void): Child {
    return options.length < 2 ? null : dropdown({ 'aria-label': label }, options, now, pick);
}

/** The graphs, one at a time; `below` is drawn anew with the stacks that are shown. */
export function flames(
    graphs: Graph[],
    below: (graph: Graph, stacks: Stack[], look: (name: string) => void) => Child[],
): HTMLElement {
    const host = h('div', { class: 'flames' });
    const set = (name: string) => (value: string) => {
        choose(name, value === '' ? null : value);
        draw();
    };
    const draw = () => {
        const focused = host.contains(document.activeElement)
            ? document.activeElement!.getAttribute('aria-label')
            : null;
        const graph = graphs.find(({ title }) => title === chosen('stacks')) ?? graphs[0]!;
        const labels = labelsOf(graph.stacks);
        const label = labels.some(([name]) => name === chosen('processes')) ? chosen('processes')! : '';
        const stacks = label
            ? graph.stacks.filter((s) => s.label === label).map((s) => ({ ...s, label: '' }))
            : graph.stacks;
        const middle = stacks.some((s) => s.frames.includes(chosen('around') ?? '')) ? chosen('around') : null;
        const all = total(graph.stacks);
        const look = (name: string) => {
            set('around')(name);
            host.scrollIntoView({ block: 'nearest' });
            host.querySelector('canvas')?.focus();
        };
        const back = h('button', { type: 'button', class: 'plain-button' }, '← The whole graph');
        back.addEventListener('click', () => look(''));
        host.replaceChildren(
            h(
                'div',
                { class: 'picks' },
                select('Profile', graphs.map(({ title }) => [title, title]), graph.title, set('stacks')),
                select(
                    'Processes',
                    [
                        ['', 'All processes'],
                        ...(labels.length > 1 ? labels : [])
                            // What is of none has the name of all.
                            .filter(([name]) => name)
                            .map(([name, value]): [string, string] => [name, `${name}: ${share(value / all)}`]),
                    ],
                    label,
                    set('processes'),
                ),
                middle === null
                    ? select(
                          'Order',
                          [
                              ['', 'Top-down: callers first'],
                              ['up', 'Bottom-up: what ran first'],
                          ],
                          chosen('order') ?? '',
                          set('order'),
                      )
                    : back,
            ),
        );
        // Of its own, so that what is told of a frame stays in sight no longer than the graph.
        host.append(h('div', {}, ...drawing(graph, stacks, middle, look)));
        append(host, below(graph, stacks, look));
        if (focused) host.querySelector<HTMLElement>(`[aria-label="${CSS.escape(focused)}"]`)?.focus();
    };
    draw();
    return host;
}

function drawing(graph: Graph, stacks: Stack[], middle: string | null, look: (name: string) => void): HTMLElement[] {
    const { unit, compared = false } = graph;
    const all = total(stacks) || 1;
    const root = middle === null ? (chosen('order') === 'up' ? bottomUp : topDown)(stacks) : null;
    const high = matchMedia('(pointer: coarse)').matches ? 28 : 20;
    const canvas = h('canvas', {
        tabindex: 0,
        role: 'img',
        'aria-label': `Flame graph. ${graph.title}. Arrow keys go from frame to frame, Enter shows one at full width, C its callers and callees, Escape all.`,
    });
    const outline = h('i', { class: 'outline', hidden: true });
    const frame = h('div', { class: 'flame' }, canvas, outline);
    const told = h('output', { class: 'frame' });
    const found = h('output', {});
    const search = h('input', {
        type: 'search',
        placeholder: 'Find a function',
        'aria-label': `Find a function in ${graph.title}`,
        value: chosen('find') ?? '',
    });
    const around = h('button', { type: 'button', class: 'plain-button', hidden: true }, 'Callers and callees');
    let path: Frame[] = root ? [root] : [];
    let rows: Box[][] = [];
    let first = 0;
    let at: Box | null = null;
    let atRow = 0;

    const words = ({ name, value, change, below }: Frame) => {
        if (compared)
            return `${name}: ${share(value - change / 2)} of all before, ${share(value + change / 2)} now`;
        const inside = [...below.values()].reduce((sum, f) => sum + f.value, 0);
        const itself = value - inside;
        const own = root && chosen('order') !== 'up' && itself > 0 && inside > 0 ? `, itself ${format(itself, unit)}` : '';
        return `${name}: ${format(value, unit)} of ${format(all, unit)}, ${share(value / all)}${own}`;
    };
    const point = (box: Box | null | undefined, row: number) => {
        outline.hidden = !box;
        if (!box) return;
        Object.assign(outline.style, {
            left: `${box.start * 100}%`,
            width: `max(${box.width * 100}%, 3px)`,
            top: `${row * high}px`,
            height: `${high}px`,
        });
        told.textContent = words(box.frame);
    };
    const stand = (box: Box | undefined, row: number) => {
        if (!box) return;
        at = box;
        atRow = row;
        around.hidden = box.frame.label || middle === box.frame.name;
        point(box, row);
    };
    const paint = () => {
        const width = frame.clientWidth;
        if (width === 0) return;
        const least = leastPixels / width;
        if (root) rows = layout(path, least);
        else ({ rows, middle: first } = sandwich(stacks, middle!, least));
        const ratio = devicePixelRatio || 1;
        canvas.width = width * ratio;
        canvas.height = rows.length * high * ratio;
        canvas.style.height = `${rows.length * high}px`;
        const pen = canvas.getContext('2d')!;
        pen.scale(ratio, ratio);
        pen.font = font;
        pen.textBaseline = 'middle';
        const letter = pen.measureText('m').width;
        palette.clear();
        const ink = colourOf('text');
        const text = search.value.trim();
        rows.forEach((row, level) => {
            for (const { frame: of, start, width: part } of row) {
                const [x, wide] = [start * width, part * width];
                const [fill, strength] = paintOf(of, compared);
                const hit = text !== '' && !of.label && matches(text, of.name);
                const shown = !root && level === first ? 0.85 : strength;
                pen.globalAlpha = text === '' ? shown : hit ? 0.9 : shown / 3;
                pen.fillStyle = hit ? colourOf('found') : fill;
                pen.fillRect(x, level * high, Math.max(wide - 1, 0.75), high - 1);
                const room = Math.floor((wide - 8) / letter);
                if (room < 3) continue;
                pen.globalAlpha = text === '' || hit ? 1 : 0.5;
                pen.fillStyle = hit ? colourOf('on-found') : ink;
                const name = of.name.length > room ? `${of.name.slice(0, room - 1)}…` : of.name;
                pen.fillText(name, x + 4, level * high + high / 2);
            }
        });
        found.textContent = text === '' ? '' : `in ${share(shareOf(text, stacks))} of all`;
        const row = root ? path.length - 1 : first;
        stand(rows[row]?.[0], row);
        outline.hidden = document.activeElement !== canvas;
    };
    const zoom = (box: Box | null) => {
        if (!box) return;
        if (!root) {
            if (!box.frame.label) look(box.frame.name);
            return;
        }
        path = pathTo(box);
        paint();
    };
    const boxUnder = (event: MouseEvent): [Box | undefined, number] => {
        const row = Math.floor(event.offsetY / high);
        return [boxAt(rows[row], event.offsetX / canvas.clientWidth), row];
    };
    canvas.addEventListener('pointermove', (event) => point(...boxUnder(event)));
    canvas.addEventListener('pointerleave', () => (outline.hidden = true));
    canvas.addEventListener('click', (event) => {
        const [box] = boxUnder(event);
        if (box) zoom(box);
    });
    canvas.addEventListener('focus', () => point(at, atRow));
    canvas.addEventListener('blur', () => (outline.hidden = true));
    around.addEventListener('click', () => at && look(at.frame.name));
    search.addEventListener('input', () => {
        choose('find', search.value.trim() || null);
        paint();
    });
    const overlapping = (row: number) => {
        const shared = (b: Box) => Math.min(b.start + b.width, at!.start + at!.width) - Math.max(b.start, at!.start);
        return [...(rows[row] ?? [])].filter((b) => shared(b) > 0).sort((a, b) => shared(b) - shared(a))[0];
    };
    canvas.addEventListener('keydown', (event) => {
        if (!at || event.ctrlKey || event.metaKey || event.altKey) return;
        const row = rows[atRow] ?? [];
        const place = row.indexOf(at);
        const keys: Record<string, () => void> = {
            ArrowDown: () => stand(overlapping(atRow + 1), atRow + 1),
            ArrowUp: () => stand(overlapping(atRow - 1), atRow - 1),
            ArrowLeft: () => stand(row[place - 1], atRow),
            ArrowRight: () => stand(row[place + 1], atRow),
            Enter: () => zoom(at),
            ' ': () => zoom(at),
            c: () => around.click(),
            Escape: () => {
                if (!root) return look('');
                path = [root];
                paint();
            },
        };
        const key = keys[event.key];
        if (!key) return;
        key();
        event.preventDefault();
    });
    for (const known of [...painters.keys()]) {
        if (known.isConnected) continue;
        painters.delete(known);
        widths.unobserve(known);
    }
    let seen = 0;
    const fit = () => {
        if (seen === frame.clientWidth) return;
        seen = frame.clientWidth;
        paint();
    };
    painters.set(frame, { paint, fit });
    widths.observe(frame);
    const heading = middle === null ? null : h('p', { class: 'around' }, 'Callers above, callees below: ', h('strong', {}, middle));
    return [
        ...(heading ? [heading] : []),
        h('div', { class: 'find' }, search, found, around),
        told,
        frame,
    ];
}
