// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The dyno authors
//
// Which series share a chart. Names of three parts and more (`vm.memory.ets`) share one with those
// of the same first two parts and the same unit; other series have one each. Series that this page
// has never heard of follow the same rule; the families below only say how to show the known ones
// better.

import uPlot from 'uplot';
import { figure, type Chart, type Line } from './chart';
import { h } from './dom';
import type { Run, Series } from './recording';

interface Family {
    title?: string;
    help?: string;
    stack?: boolean;
    yMax?: number;
    /** May be drawn on a log axis where its values are far apart. */
    wide?: boolean;
    /** Order of the lines; those not named come after. */
    order?: string[];
    prepare?: (lines: Line[]) => Line[];
}

/** From here on the highest line would press the lowest one flat on a linear axis. */
const wideRatio = 30;

const families: Record<string, Family> = {
    'load.throughput': {
        title: 'Throughput',
        order: ['achieved', 'asked'],
        help: 'Operations that ended in each second. A dip here with a rise below tells what the target waited for.',
    },
    'load.latency': { title: 'Response time', wide: true,
        order: ['p50', 'p90', 'p99', 'p99.9', 'max'],
        help: 'Of 100 operations 50 took at most p50 and 99 at most p99. A p99 far above p50 means that a few wait long.',
    },
    'load.errors': { help: 'Operations that failed, each second.' },
    'vm.scheduler_utilisation': {
        title: 'Scheduler utilisation',
        yMax: 1,
        order: ['normal', 'dirty_cpu', 'dirty_io'],
        help: 'Share of the time in which schedulers ran something. Near 100 % the VM has no more to give.',
    },
    'vm.run_queue': {
        title: 'Run queues',
        order: ['normal', 'dirty_cpu', 'dirty_io'],
        help: 'Processes that are ready to run and wait for a scheduler. Above 0 for long means too little processor.',
    },
    'vm.memory': {
        title: 'Memory of the VM',
        stack: true,
        prepare: memory,
        help: 'The parts on top of each other. What rises and never falls is a leak, or a cache.',
        order: ['processes', 'binary', 'ets', 'code', 'atom', 'system', 'total'],
    },
    'vm.reductions': { help: 'Function calls, roughly: the work that was done.' },
    'vm.garbage_collections': { help: 'Many beside few reductions: garbage takes the time.' },
    'vm.context_switches': { help: 'How often a scheduler took another process.' },
    'vm.io': { title: 'Input and output of ports', help: 'Sockets, files and programs, all together.' },
    'vm.processes': { help: 'Alive at once. A steady rise under a steady load is a leak.' },
    'vm.ports': { help: 'Open sockets, files and programs.' },
    'vm.ets_tables': { help: 'A steady rise under a steady load is a leak.' },
    'vm.atoms': { help: 'Atoms are never freed: a steady rise ends the VM.' },
    'os.cpu': {
        title: 'CPU of the machine',
        stack: true,
        yMax: 1,
        order: ['user', 'system', 'iowait', 'steal'],
        prepare: (lines) => lines.filter((line) => line.label !== 'idle'),
        help: 'Share of all cores, of all programs. steal: what the hypervisor gave to others.',
    },
    'os.memory': { title: 'Memory of the machine', help: 'Free for programs, and used to cache files.' },
    'os.network': { title: 'Network', help: 'Of the whole machine; loopback is what stays on it.' },
    'os.disk': { title: 'Disk', help: 'Of the whole machine.' },
    'os.swap': { help: 'Above 0 the machine has too little memory.' },
    'os.load1': { help: 'Threads that run or wait to; above the number of cores they wait.' },
    'os.vm': { title: 'Operating-system process of the VM', help: 'The VM as the system sees it.' },
};
const familyOrder = Object.keys(families);

/** The VM's `system` memory holds atoms, binaries, code and ETS, so only its rest may be stacked. */
function memory(lines: Line[]): Line[] {
    const inside = lines.filter((line) => ['atom', 'binary', 'code', 'ets'].includes(line.label));
    return lines.map((line) => {
        if (line.label === 'total') return { ...line, overlay: true };
        if (line.label !== 'system') return line;
        const values = line.values.map((value, i) => {
            if (typeof value !== 'number') return value;
            return Math.max(
                0,
                inside.reduce((rest, other) => rest - (other.values[i] ?? 0), value),
            );
        });
        return { label: 'other system', values };
    });
}

/** Series of other names that belong on one chart, with what they are called there. */
const together: Record<string, [family: string, label: string]> = {
    'load.offered': ['load.throughput', 'asked'],
    'load.throughput': ['load.throughput', 'achieved'],
};

export function familyName(series: Series): string {
    const other = together[series.name];
    if (other) return other[0];
    const parts = series.name.split('.');
    return parts.length > 2 ? parts.slice(0, 2).join('.') : series.name;
}

function rank(name: string, order: string[]): number {
    const at = order.indexOf(name);
    return at < 0 ? order.length : at;
}

function words(name: string): string {
    const plain = name.replace(/_/g, ' ');
    return /^p\d/.test(plain) ? plain : plain.charAt(0).toUpperCase() + plain.slice(1);
}

function lineLabel(series: Series, family: string): string {
    const labels = Object.values(series.labels).map(String).join(', ');
    const called = together[series.name]?.[1];
    if (called) return labels ? `${called} (${labels})` : called;
    const rest = series.name.length > family.length ? series.name.slice(family.length + 1) : '';
    if (rest && labels) return `${rest} (${labels})`;
    return rest || labels || series.title;
}

/** All series on one time axis, in seconds. */
function align(group: Series[]): { x: number[]; columns: (number | null | undefined)[][] } {
    const first = group[0]!.times_ms;
    const same = group.every(
        ({ times_ms: t }) => t.length === first.length && t.every((v, i) => v === first[i]),
    );
    const data = same
        ? [first, ...group.map((s) => s.values)]
        : uPlot.join(group.map((s) => [s.times_ms, s.values] as uPlot.AlignedData));
    const [times = [], ...columns] = data as (number | null | undefined)[][];
    return { x: times.map((ms) => (ms ?? 0) / 1000), columns };
}

function isWide(lines: Line[]): boolean {
    const values = lines
        .flatMap((l) => l.values)
        .filter((v): v is number => typeof v === 'number' && v > 0);
    return (
        values.reduce((a, b) => Math.max(a, b), 0) >
        wideRatio * values.reduce((a, b) => Math.min(a, b), Infinity)
    );
}

function chartOf(name: string, group: Series[]): Chart {
    const family = families[name] ?? {};
    const order = family.order ?? [];
    const part = (s: Series) => together[s.name]?.[1] ?? s.name.slice(name.length + 1);
    const ordered = [...group].sort((a, b) => rank(part(a), order) - rank(part(b), order));
    const { x, columns } = align(ordered);
    const plain = ordered.map((s, i) => ({ label: lineLabel(s, name), values: columns[i] ?? [] }));
    const lines = (family.prepare ?? ((ls) => ls))(plain).map((l) => ({
        ...l,
        label: l.label.replace(/_/g, ' '),
    }));
    const short = words(name.slice(name.indexOf('.') + 1));
    const yLog = family.wide === true && isWide(lines);
    return {
        title: group.length === 1 ? group[0]!.title : (family.title ?? short),
        help: [family.help, yLog && 'Log scale: each step is a factor.'].filter(Boolean).join(' '),
        x,
        xUnit: 's',
        unit: group[0]!.unit,
        lines,
        yLog,
        style: family.stack && lines.length > 1 ? 'stack' : 'lines',
        ...(family.yMax === undefined ? {} : { yMax: family.yMax }),
        warmupBefore: 0,
        sync: 'time',
    };
}

/** The time that the series of a run span, in seconds: what their charts have in common. */
export function spanOf(all: Series[]): [number, number] {
    let [low, high] = [Infinity, -Infinity];
    for (const { times_ms: times } of all) {
        if (times.length === 0) continue;
        low = Math.min(low, times[0]!);
        high = Math.max(high, times[times.length - 1]!);
    }
    return low < high ? [low / 1000, high / 1000] : [0, 1];
}

/** The charts of some series, by the name of their family. */
export function seriesCharts(all: Series[]): { name: string; chart: Chart }[] {
    const groups = new Map<string, Series[]>();
    for (const series of all) {
        const key = `${familyName(series)} ${series.unit}`;
        const group = groups.get(key);
        if (group) group.push(series);
        else groups.set(key, [series]);
    }
    const named = [...groups.values()].map((group) => ({ name: familyName(group[0]!), group }));
    named.sort((a, b) => rank(a.name, familyOrder) - rank(b.name, familyOrder));
    return named.map(({ name, group }) => ({ name, chart: chartOf(name, group) }));
}

/** What of some series says anything: where all is 0 or unknown there is nothing to see. */
export function telling(all: Series[]): Series[] {
    return all.filter((s) => s.values.some((v) => (s.name.startsWith('os.swap') ? v : v !== null)));
}

/** The time of day at 0 of a run's series. */
export function clockOf(run: Pick<Run, 'started_at'> | null): number | null {
    const at = Date.parse(run?.started_at ?? '');
    return Number.isFinite(at) ? at : null;
}

/** The charts of some series, as one grid; null where there is no series. */
export function seriesGrid(all: Series[], run: Run | null = null): HTMLElement | null {
    const charts = seriesCharts(telling(all));
    if (charts.length === 0) return null;
    const clock = clockOf(run);
    return h('div', { class: 'grid' }, ...charts.map(({ chart }) => figure({ ...chart, clock })));
}

/** The same under each other, on one time axis. */
export function seriesStack(charts: Chart[], xRange: [number, number], run: Run): HTMLElement {
    const clock = clockOf(run);
    return h(
        'div',
        { class: 'grid wide timeline' },
        ...charts.map((chart) => figure({ ...chart, clock, xRange, height: 134 })),
    );
}
