// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The dyno authors
//
// The recording as the page sees it (doc/recording.md), and the ways to find things in it. dyno has
// checked it and filled in defaults: only titles and groups may be missing.

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
    role?: string | null;
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
    error: Text | null;
}

export interface Verdict {
    kind: string;
    name: string;
    run: string | null;
    result: string;
    text: string;
    /** `bound`: of a value of which only that end is known, `at_least` or `at_most`. */
    threshold: { operator: string; unit: string; value: number | null; bound: string | null } | null;
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
    error: Text | null;
    findings: Finding[];
    /** What a comparison compares. */
    compared: { old: Recording; new: Recording } | null;
}

/** What is wrong, doubtful or worth knowing, as all reports say it (dyno_report_findings). */
export interface Finding {
    severity: 'critical' | 'warning' | 'doubt' | 'note';
    text: string;
    /** What each line is, and the line. */
    lines: [label: string, text: string][];
}

type Raw = Record<string, any>;

const named = (raw: Raw) => ({ ...raw, title: raw.title ?? raw.name, group: raw.group ?? 'other' });

/** A title with what tells it from others of its name. */
const labelled = ({ title, name, labels }: Raw): string => [title ?? name, ...Object.values(labels)].join(', ');

const table = (raw: Raw) => ({
    ...raw,
    title: labelled(raw),
    sort: raw.sort && { column: raw.sort.column, descending: raw.sort.order === 'descending' },
    columns: raw.columns.map((c: Raw) => ({ ...c, title: c.title ?? c.name, help: c.help ?? '' })),
});

const profile = (raw: Raw) => ({
    ...raw,
    title: labelled(raw),
    samples: raw.samples.map((s: Raw) => ({ ...s, labels: Object.values(s.labels).map(String) })),
});

const run = (raw: Raw) => ({
    ...raw,
    metrics: raw.metrics.map((m: Raw) => ({ low: null, high: null, ...named(m) })),
    histograms: raw.histograms.map(named),
    series: raw.series.map(named),
    tables: raw.tables.map(table),
    profiles: raw.profiles.map(profile),
});

/** A recording, and its findings. */
export function read(json: string, findings: string): Recording {
    return recording(JSON.parse(json), JSON.parse(findings));
}

function recording(raw: Raw, findings: Finding[] = []): Recording {
    const both = raw.recordings;
    return {
        ...(raw as Recording),
        runs: raw.runs.map(run),
        tables: raw.tables.map(table),
        findings,
        compared: both ? { old: recording(both.old), new: recording(both.new) } : null,
    };
}

export const num = (value: unknown): number | null => (typeof value === 'number' ? value : null);

/** Whether its size tells a run from others; several cases may have an input of the same size. */
const isBySize = (run: Run): boolean => run.size !== null && !('case' in run.labels);

/** How a run is called on the page: its size, and which repetition where there are several. */
export function runTitle(recording: Recording, which: Run): string {
    if (!isBySize(which)) return which.id;
    const size = String(which.size).replace(/\B(?=(\d{3})+$)/g, ',');
    const repeated = recording.runs.filter((r) => r.size === which.size).length > 1;
    return repeated ? `${size} (${which.repetition})` : size;
}

const labelOf = ({ parameters }: Recording) => String(parameters.size_label ?? '').trim();

/** What the sizes count, as the suite calls it; runs may have none. */
export function sizeLabel(recording: Recording): string {
    return labelOf(recording) || (recording.runs.some(isBySize) ? 'Size' : 'Run');
}

/** A run within a sentence: `16 clients`, `1 client`, `size 16`, `run small`. */
export function runPlace(recording: Recording, which: Run): string {
    const title = runTitle(recording, which);
    const label = labelOf(recording);
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

/** Whether something belongs to the chosen node: what has no node belongs to all. */
export function ofNode(item: { node: string | null }, node: string | null): boolean {
    return item.node === null || node === null || item.node === node;
}

/** A run's table of a node, or that of no node. */
export function tableOf(run: Run, name: string, node: string | null): Table | undefined {
    return run.tables.find((t) => t.name === name && ofNode(t, node));
}

/** The runs that two recordings have in common: each in the old one, and in the new one. */
export function sameRuns(old: Recording, now: Recording): [Run, Run][] {
    return now.runs.flatMap((run) => old.runs.filter((r) => r.id === run.id).map((was): [Run, Run] => [was, run]));
}
