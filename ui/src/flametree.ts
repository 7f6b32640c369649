// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The dyno authors
//
// The trees of flame graphs, without a page: stacks of a profile, or of two that are compared, as a
// tree from the outermost callers down or from the innermost functions up, or around one function;
// and where each frame of a tree stands.

import type { Profile } from './recording';

/** One stack, the outermost frame first, with what was spent in it. */
export interface Stack {
    frames: string[];
    /** Such as the kind of process. */
    label: string;
    value: number;
    /** Of two profiles: by how much its share of all grew. Their `value` is the mean of both shares. */
    change: number;
}

export interface Frame {
    name: string;
    /** What the stacks are of, such as processes; not a function. */
    label: boolean;
    value: number;
    change: number;
    below: Map<string, Frame>;
}

/** A frame in its row, as parts of the whole width. */
export interface Box {
    frame: Frame;
    /** The box that it stands on; none of the first row. */
    up: Box | null;
    start: number;
    width: number;
}

const frame = (name: string, label = false): Frame => ({
    name,
    label,
    value: 0,
    change: 0,
    below: new Map(),
});

/** A profile's stacks with one of its values. */
export function stacksOf({ frames, samples }: Profile, which: number): Stack[] {
    return samples.flatMap(({ stack, values, labels }) => {
        const value = values[which] ?? 0;
        if (value <= 0) return [];
        return [{ frames: stack.map((i) => frames[i] ?? '?'), label: labels.join(', '), value, change: 0 }];
    });
}

export const total = (stacks: Stack[]): number => stacks.reduce((sum, s) => sum + s.value, 0);

/** Each stack's share of the old whole and of the new one: what only one of them has is there, too. */
export function difference(old: Stack[], now: Stack[]): Stack[] {
    const found = new Map<string, Stack>();
    const add = (stacks: Stack[], sign: number) => {
        const all = total(stacks) || 1;
        for (const { frames, label, value } of stacks) {
            const key = [label, ...frames].join('\n');
            const stack = found.get(key) ?? { frames, label, value: 0, change: 0 };
            stack.value += value / all / 2;
            stack.change += (sign * value) / all;
            found.set(key, stack);
        }
    };
    add(old, -1);
    add(now, 1);
    return [...found.values()];
}

/** What each label of the stacks has, the most first. */
export function labelsOf(stacks: Stack[]): [label: string, value: number][] {
    const sums = new Map<string, number>();
    for (const { label, value } of stacks) sums.set(label, (sums.get(label) ?? 0) + value);
    return [...sums].sort((a, b) => b[1] - a[1]);
}

interface Step {
    name: string;
    label: boolean;
}

function grown(root: Frame, stacks: Stack[], steps: (stack: Stack) => Step[]): Frame {
    for (const stack of stacks) {
        root.value += stack.value;
        root.change += stack.change;
        let at = root;
        for (const { name, label } of steps(stack)) {
            const key = `${label ? 'label' : 'frame'} ${name}`;
            const next = at.below.get(key) ?? frame(name, label);
            at.below.set(key, next);
            next.value += stack.value;
            next.change += stack.change;
            at = next;
        }
    }
    return root;
}

const functions = (names: string[]): Step[] => names.map((name) => ({ name, label: false }));
const labelled = ({ label }: Stack): Step[] => (label === '' ? [] : [{ name: label, label: true }]);

/** From the callers down to what they call. */
export function topDown(stacks: Stack[]): Frame {
    return grown(frame('all', true), stacks, (s) => [...labelled(s), ...functions(s.frames)]);
}

/** From what ran up to who called it. */
export function bottomUp(stacks: Stack[]): Frame {
    return grown(frame('all', true), stacks, (s) => [
        ...functions([...s.frames].reverse()),
        ...labelled(s),
    ]);
}

/** Who calls a function, and what it calls: of one that calls itself, from its outermost call on. */
export function around(stacks: Stack[], name: string): { callers: Frame; callees: Frame } {
    const having = stacks.filter(({ frames }) => frames.includes(name));
    return {
        callers: grown(frame(name), having, (s) => [
            ...functions(s.frames.slice(0, s.frames.indexOf(name)).reverse()),
            ...labelled(s),
        ]),
        callees: grown(frame(name), having, (s) =>
            functions(s.frames.slice(s.frames.indexOf(name) + 1)),
        ),
    };
}

export const matches = (text: string, name: string): boolean => name.toLowerCase().includes(text.toLowerCase());

/** The share of the stacks that have a function with the text in its name. */
export function shareOf(text: string, stacks: Stack[]): number {
    const found = stacks.filter((s) => s.frames.some((name) => matches(text, name)));
    return total(found) / (total(stacks) || 1);
}

interface Spent {
    name: string;
    /** In the function itself, and by how much that grew; with what it calls. */
    own: number;
    change: number;
    all: number;
}

/** What was spent in each function; one that calls itself counts once for a stack. */
export function functionsOf(stacks: Stack[]): Spent[] {
    const found = new Map<string, Spent>();
    for (const { frames, value, change } of stacks) {
        // C code counts for the function that runs it.
        const inmost = [...frames].reverse().find((name) => !name.startsWith('[')) ?? frames.at(-1);
        for (const name of new Set(frames)) {
            const of = found.get(name) ?? { name, own: 0, all: 0, change: 0 };
            of.all += value;
            if (name === inmost) {
                of.own += value;
                of.change += change;
            }
            found.set(name, of);
        }
    }
    return [...found.values()].sort((a, b) => b.own - a.own || b.all - a.all);
}

/** More rows than this cannot be read. */
const mostRows = 400;

/** The frames from the root to a box. */
export function pathTo(box: Box): Frame[] {
    return box.up ? [...pathTo(box.up), box.frame] : [box.frame];
}

/**
 * The boxes of a tree, row by row. The last frame of the path has the whole width, as those that lead
 * to it; what is narrower than `least` is left out.
 */
export function layout(path: Frame[], least: number): Box[][] {
    const rows: Box[][] = [];
    let up: Box | null = null;
    for (const of of path) {
        up = { frame: of, up, start: 0, width: 1 };
        rows.push([up]);
    }
    const whole = path[path.length - 1]!.value || 1;
    for (let row = path.length - 1; row < rows.length && row < mostRows; row++) {
        const next: Box[] = [];
        for (const box of rows[row]!) {
            let start = box.start;
            for (const child of [...box.frame.below.values()].sort((a, b) => b.value - a.value)) {
                const width = child.value / whole;
                if (width < least) break;
                next.push({ frame: child, up: box, start, width });
                start += width;
            }
        }
        if (next.length > 0) rows.push(next);
    }
    return rows;
}

/** The callers above a function, the nearest next to it, and what it calls below. */
export function sandwich(stacks: Stack[], name: string, least: number): { rows: Box[][]; middle: number } {
    const { callers, callees } = around(stacks, name);
    const above = layout([callers], least).slice(1).reverse();
    return { rows: [...above, ...layout([callees], least)], middle: above.length };
}

/** The box of a row that a place is in, or the nearest one to it. */
export function boxAt(row: Box[] | undefined, place: number): Box | undefined {
    return row?.find((b) => place >= b.start && place < b.start + b.width);
}
