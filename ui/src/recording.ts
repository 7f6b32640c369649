// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The dyno authors
//
// The recording as the page sees it (doc/recording.md), and the ways to find things in it.
// A recording may be partial or newer than this page: what is missing becomes empty here, once.

export interface Text {
    code: string;
    text: string;
}

export interface Metric {
    name: string;
    title: string;
    value: number | null;
    unit: string;
    group: string;
    /** The value's interval, where repetitions gave one. */
    low: number | null;
    high: number | null;
}

export interface Histogram {
    name: string;
    title: string;
    unit: string;
    group: string;
    count: number;
    min: number | null;
    max: number | null;
    buckets: [number, number, number][];
}

export interface Series {
    name: string;
    title: string;
    unit: string;
    group: string;
    node: string | null;
    labels: Record<string, string>;
    times_ms: number[];
    values: (number | null)[];
}

export interface Column {
    name: string;
    title: string;
    type: string;
    unit: string | null;
    help: string;
    /** key, value, low, high or note; of low and high also the value that they bound. */
    role?: string;
    of?: string | null;
}

/** A table's row, its cells by the names of their columns. */
export type Row = Record<string, Cell>;

export type Cell = string | number | boolean | null;

export interface Table {
    name: string;
    title: string;
    node: string | null;
    sort: { column: string; descending: boolean } | null;
    columns: Column[];
    rows: Cell[][];
    truncated: number;
}

/** Something that happened; its time is in milliseconds, as that of series. */
export interface Event {
    time_ms: number;
    node: string | null;
    process: string | null;
    kind: string;
    text: string;
}

/** Stacks, as numbers of frames, the outermost first, with what was spent in each. */
export interface Profile {
    name: string;
    title: string;
    node: string | null;
    values: { name: string; unit: string }[];
    frames: string[];
    samples: { stack: number[]; values: (number | null)[]; labels: string[] }[];
}

export interface TargetNode {
    name: string;
    role: string;
    otp?: string;
    erts?: string;
    schedulers_online?: number;
    os_pid?: string | number;
    /** By how much its clock was ahead of dyno's, and ran faster; what that may be off by. */
    clock_offset_ns?: number | null;
    clock_error_ns?: number | null;
}

export interface Run {
    id: string;
    labels: Record<string, unknown>;
    size: number | null;
    repetition: number;
    status: string;
    started_at: string | null;
    duration_ns: number | null;
    nodes: TargetNode[];
    metrics: Metric[];
    histograms: Histogram[];
    series: Series[];
    tables: Table[];
    events: { dropped: number; items: Event[] };
    profiles: Profile[];
    warnings: Text[];
    error: Text | null;
}

export interface Verdict {
    kind: string;
    name: string;
    run: string | null;
    result: string;
    text: string;
    threshold: { operator: string; unit: string; value: number | null } | null;
}

export interface Recording {
    name: string;
    status: string;
    command: string;
    version: number;
    parameters: Record<string, unknown>;
    environment: Record<string, unknown>;
    started_at: string | null;
    duration_ns: number | null;
    runs: Run[];
    tables: Table[];
    verdicts: Verdict[];
    warnings: Text[];
    error: Text | null;
    /** What a comparison compares. */
    compared: { old: Recording; new: Recording } | null;
}

type Raw = Record<string, unknown>;

const list = <T>(value: unknown, each: (raw: Raw) => T): T[] =>
    Array.isArray(value) ? value.filter((v) => v && typeof v === 'object').map(each) : [];
const array = <T>(value: unknown): T[] => (Array.isArray(value) ? (value as T[]) : []);
const text = (value: unknown, otherwise = ''): string =>
    typeof value === 'string' ? value : typeof value === 'number' ? String(value) : otherwise;
const number = (value: unknown): number | null => (typeof value === 'number' ? value : null);
const object = (value: unknown): Raw =>
    value && typeof value === 'object' && !Array.isArray(value) ? (value as Raw) : {};
const textOrNull = (value: unknown): string | null => (typeof value === 'string' ? value : null);

const coded = (raw: Raw): Text => ({ code: text(raw.code), text: text(raw.text, text(raw.code)) });
const codedOrNull = (raw: unknown): Text | null => (raw ? coded(object(raw)) : null);

const named = (raw: Raw) => ({
    name: text(raw.name, 'unnamed'),
    title: text(raw.title, text(raw.name, 'unnamed')),
    unit: text(raw.unit, '1'),
    group: text(raw.group, 'other'),
});

const metric = (raw: Raw): Metric => ({
    ...named(raw),
    value: number(raw.value),
    low: number(raw.low),
    high: number(raw.high),
});

const histogram = (raw: Raw): Histogram => ({
    ...named(raw),
    count: number(raw.count) ?? 0,
    min: number(raw.min),
    max: number(raw.max),
    buckets: array(raw.buckets),
});

const series = (raw: Raw): Series => ({
    ...named(raw),
    node: textOrNull(raw.node),
    labels: object(raw.labels) as Record<string, string>,
    times_ms: array(raw.times_ms),
    values: array(raw.values),
});

const column = (raw: Raw): Column => ({
    name: text(raw.name),
    title: text(raw.title, text(raw.name)),
    type: text(raw.type, 'string'),
    unit: textOrNull(raw.unit),
    help: text(raw.help),
    role: text(raw.role),
    of: textOrNull(raw.of),
});

/** A title with what tells it from others of its name. */
const labelled = (raw: Raw): string =>
    [text(raw.title, text(raw.name, 'unnamed')), ...Object.values(object(raw.labels))].join(', ');

const table = (raw: Raw): Table => {
    const sort = object(raw.sort);
    return {
        name: text(raw.name, 'unnamed'),
        title: labelled(raw),
        node: textOrNull(raw.node),
        sort: raw.sort
            ? { column: text(sort.column), descending: sort.order === 'descending' }
            : null,
        columns: list(raw.columns, column),
        rows: array(raw.rows),
        truncated: number(raw.truncated) ?? 0,
    };
};

const event = (raw: Raw): Event => ({
    time_ms: number(raw.time_ms) ?? 0,
    node: textOrNull(raw.node),
    process: textOrNull(raw.process),
    kind: text(raw.kind),
    text: text(raw.text),
});

const profile = (raw: Raw): Profile => ({
    name: text(raw.name),
    title: labelled(raw),
    node: textOrNull(raw.node),
    values: list(raw.values, (v) => ({ name: text(v.name), unit: text(v.unit, '1') })),
    frames: array(raw.frames),
    samples: list(raw.samples, (s) => ({
        stack: array(s.stack),
        values: array(s.values),
        labels: Object.values(object(s.labels)).map(String),
    })),
});

const run = (raw: Raw): Run => ({
    id: text(raw.id),
    labels: object(raw.labels),
    size: number(raw.size),
    repetition: number(raw.repetition) ?? 1,
    status: text(raw.status, 'partial'),
    started_at: textOrNull(raw.started_at),
    duration_ns: number(raw.duration_ns),
    nodes: list(raw.nodes, (n) => ({ ...n, name: text(n.name), role: text(n.role) }) as TargetNode),
    metrics: list(raw.metrics, metric),
    histograms: list(raw.histograms, histogram),
    series: list(raw.series, series),
    tables: list(raw.tables, table),
    events: {
        dropped: number(object(raw.events).dropped) ?? 0,
        items: list(object(raw.events).items, event),
    },
    profiles: list(raw.profiles, profile),
    warnings: list(raw.warnings, coded),
    error: codedOrNull(raw.error),
});

const verdict = (raw: Raw): Verdict => ({
    kind: text(raw.kind),
    name: text(raw.name),
    run: textOrNull(raw.run),
    result: text(raw.result, 'unknown'),
    text: text(raw.text),
    threshold: raw.threshold ? threshold(object(raw.threshold)) : null,
});

const threshold = (raw: Raw) => ({
    operator: text(raw.operator),
    unit: text(raw.unit, '1'),
    value: number(raw.value),
});

export function read(json: string): Recording {
    return recording(object(JSON.parse(json)));
}

function recording(raw: Raw): Recording {
    const both = object(raw.recordings);
    return {
        name: text(raw.name, 'Unnamed'),
        status: text(raw.status, 'partial'),
        command: text(raw.command),
        version: number(raw.version) ?? 0,
        parameters: object(raw.parameters),
        environment: object(raw.environment),
        started_at: textOrNull(raw.started_at),
        duration_ns: number(raw.duration_ns),
        runs: list(raw.runs, run),
        tables: list(raw.tables, table),
        verdicts: list(raw.verdicts, verdict),
        warnings: list(raw.warnings, coded),
        error: codedOrNull(raw.error),
        compared:
            both.old && both.new
                ? { old: recording(object(both.old)), new: recording(object(both.new)) }
                : null,
    };
}

/** Whether its size tells a run from others; several cases may have an input of the same size. */
const isBySize = (run: Run): boolean => run.size !== null && !('case' in run.labels);

/** How a run is called on the page: its size, and which repetition where there are several. */
export function runTitle(recording: Recording, which: Run): string {
    if (!isBySize(which)) return which.id;
    const size = String(which.size).replace(/\B(?=(\d{3})+$)/g, ',');
    const repeated = recording.runs.filter((r) => r.size === which.size).length > 1;
    return repeated ? `${size} (${which.repetition})` : size;
}

/** What the sizes count, as the suite calls it; runs may have none. */
export function sizeLabel(recording: Recording): string {
    return text(recording.parameters.size_label) || (recording.runs.some(isBySize) ? 'Size' : 'Run');
}

/** A run within a sentence: `16 clients`, `1 client`, `size 16`, `run small`. */
export function runPlace(recording: Recording, which: Run): string {
    const title = runTitle(recording, which);
    const label = text(recording.parameters.size_label).trim();
    if (!isBySize(which)) return `run ${title}`;
    if (label === '' || label.toLowerCase() === 'size') return `size ${title}`;
    const [count, repetition] = title.split(' (');
    // Of 16 there is no `number of clients`.
    const plural = label.replace(/^number of /i, '');
    const what = which.size === 1 ? singular(plural) : plural;
    return `${count} ${lowered(what)}${repetition === undefined ? '' : ` (${repetition}`}`;
}

/** Of a plural as English forms it; what is no plural stays. */
function singular(label: string): string {
    return label
        .replace(/ies$/i, 'y')
        .replace(/(ss|x|ch|sh)es$/i, '$1')
        .replace(/([^s/])s$/i, '$1');
}

/** What begins like a sentence does not within one; TCP stays. */
function lowered(label: string): string {
    return /^.[A-Z]/.test(label) ? label : label.charAt(0).toLowerCase() + label.slice(1);
}

export function tableNamed(of: { tables: Table[] }, name: string): Table | undefined {
    return of.tables.find((t) => t.name === name);
}

export function objects(table: Table | undefined | null): Row[] {
    if (!table) return [];
    return table.rows.map((row) =>
        Object.fromEntries(table.columns.map((c, i) => [c.name, row[i] ?? null])),
    );
}

export function findMetric(which: Run, name: string): Metric | undefined {
    return which.metrics.find((m) => m.name === name);
}

/** The most of a series in the measured part, of the node that has it first. */
export function mostOf(which: Run, name: string): Metric | undefined {
    const series = which.series.find((s) => s.name === name);
    const values = series?.values.filter((v, i): v is number => v !== null && series.times_ms[i]! >= 0);
    if (!series || !values || values.length === 0) return undefined;
    return {
        name: `${name}.max`,
        value: values.reduce((a, b) => Math.max(a, b)),
        unit: series.unit,
        title: series.title,
        low: null,
        high: null,
        group: series.group,
    };
}

/** The roles of the nodes that parts of the run are of: those declared, and those only parts name. */
export function nodesOf(which: Run): string[] {
    const names = new Set(which.nodes.map((n) => n.role));
    for (const item of [...which.series, ...which.tables, ...which.profiles]) {
        if (item.node) names.add(item.node);
    }
    return [...names];
}

/**
 * The node of another run that stands where a node stands in this one: the same by name, or else by
 * place, because a suite may start fresh nodes, with fresh names, for each run.
 */
export function counterpart(node: string | null, run: Run, other: Run): string | null {
    const names = nodesOf(other);
    if (node === null || names.includes(node)) return node;
    return names[nodesOf(run).indexOf(node)] ?? null;
}

/** Whether something belongs to the chosen node: what has no node belongs to all. */
export function ofNode(item: { node: string | null }, node: string | null): boolean {
    return item.node === null || node === null || item.node === node;
}

/** A run's table of a node, or that of no node. */
export function tableOf(run: Run, name: string, node: string | null): Table | undefined {
    return run.tables.find((t) => t.name === name && ofNode(t, node));
}
