// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The dyno authors
//
// One chart: a figure with title, legend, canvas and tooltip. It is described by plain data and can
// be drawn again at any time (theme, width, a line switched off), so it keeps no state but that.

import uPlot from 'uplot';
import { absent, h } from './dom';
import { labelPlaces } from './labels';
import { logRange, logTicks } from './logaxis';
import { drawBand, drawMarkers, drawWarmup, drawWhiskers, font, labelHeight } from './overlay';
import { areaColour, lineColour, lineDash, lineVariable, styleColour } from './palette';
import { onThemeChange } from './theme';
import { tooltip, type TooltipRow } from './tooltip';
import { format, tick, timeOfDay } from './units';

export interface Line {
    label: string;
    values: (number | null | undefined)[];
    /** Drawn as a plain line over a stack. */
    overlay?: boolean;
    /** The interval of each value, drawn as a whisker. */
    low?: (number | null | undefined)[];
    high?: (number | null | undefined)[];
    /** The line's colour and dash, where not those of its place: for pairs of lines. */
    colour?: number;
    dashed?: boolean;
}

export interface Marker {
    at: number;
    label: string;
}

export interface Chart {
    title: string;
    help?: string;
    x: number[];
    xUnit: string;
    xLabel?: string;
    /** Ticks at these values only. */
    xTicks?: number[];
    xLog?: boolean;
    /** The axis spans this at least, so that charts above each other have one axis. */
    xRange?: [number, number];
    unit: string;
    yLog?: boolean;
    yMax?: number;
    /** The axis need not reach down to 0. */
    yFree?: boolean;
    style?: 'lines' | 'points' | 'stack' | 'steps';
    lines: Line[];
    markers?: Marker[];
    /** The time of day at 0, as milliseconds since 1970. */
    clock?: number | null;
    /** Lines break where a value is missing; false where the lines have times of their own. */
    gaps?: boolean;
    /** Between these values differences do not matter. */
    band?: [low: number, high: number];
    height?: number;
    /** What is left of this x is drawn as warm-up. */
    warmupBefore?: number;
    /** Charts with the same key share the cursor. */
    sync?: string;
}

const usualHeight = 210;
const yAxisSize = 66;
const rightPadding = 30;
/** A margin at the first and the last value of a log axis. */
const logMargin = 1.15;
/** A chart is drawn when it comes so near to what is seen: those far away cost nothing. */
const near = '500px';

interface Plotter {
    draw: () => void;
    /** Fits the width, and draws where nothing is drawn yet. */
    fit: () => void;
}

const waiting = new Map<Element, Plotter>();
const drawn = new Map<Element, Plotter>();

const widths = new ResizeObserver((entries) => {
    for (const { target } of entries) drawn.get(target)?.fit();
});
const approaching = new IntersectionObserver(
    (entries) => {
        for (const { target, isIntersecting } of entries) if (isIntersecting) show(target);
    },
    { rootMargin: near },
);

function show(host: Element): void {
    const plotter = waiting.get(host);
    if (!plotter) return;
    waiting.delete(host);
    approaching.unobserve(host);
    drawn.set(host, plotter);
    widths.observe(host);
    plotter.fit();
}

onThemeChange(() => {
    for (const { draw } of [...drawn.values()]) draw();
});
// Paper has no part that is out of sight.
addEventListener('beforeprint', () => [...waiting.keys()].forEach(show));

/** Forget the charts that are no longer on the page. */
export function forgetDetached(): void {
    for (const known of [waiting, drawn]) {
        for (const host of [...known.keys()]) {
            if (host.isConnected) continue;
            known.delete(host);
            approaching.unobserve(host);
            widths.unobserve(host);
        }
    }
}

/** The colour a line has: its own, or that of its place. */
function colourOf(line: Line, index: number): number {
    return line.colour ?? index;
}

function dashOf(line: Line, index: number): number[] | undefined {
    return line.dashed ? [5, 4] : line.colour === undefined ? lineDash(index) : undefined;
}

export function figure(chart: Chart): HTMLElement {
    const caption = h('figcaption', {}, h('span', { class: 'title' }, chart.title));
    const frame = h('figure', { class: 'chart' }, caption);
    const hasValues = chart.lines.some((l) => l.values.some((v) => typeof v === 'number'));
    if (!hasValues || chart.x.length === 0) {
        frame.classList.add('empty');
        frame.append(absent('No value was recorded.'));
        return frame;
    }
    const hidden = new Set<number>();
    const host = h('div', {
        class: 'plot',
        tabindex: 0,
        role: 'img',
        'aria-label': description(chart),
    });
    host.style.minHeight = `${chart.height ?? usualHeight}px`;
    const redraw = plotter(chart, host, hidden);
    if (chart.lines.length > 1) frame.append(legend(chart, hidden, redraw));
    frame.append(host);
    // How to read it stands below.
    if (chart.help) frame.append(h('p', { class: 'help' }, chart.help));
    return frame;
}

function description(chart: Chart): string {
    const parts = chart.lines.map((line) => {
        const values = line.values.filter((v): v is number => typeof v === 'number');
        if (values.length === 0) return `${line.label}: no values`;
        const low = values.reduce((a, b) => Math.min(a, b));
        const high = values.reduce((a, b) => Math.max(a, b));
        return `${line.label}: ${format(low, chart.unit)} to ${format(high, chart.unit)}`;
    });
    return `${chart.title}. ${parts.join('; ')}. Left and right arrow keys read single values.`;
}

function legend(chart: Chart, hidden: Set<number>, redraw: () => void): HTMLElement {
    const items = chart.lines.map((line, index) => {
        const swatch = h('span', { class: dashOf(line, index) ? 'swatch dashed' : 'swatch' });
        swatch.style.color = line.overlay ? 'var(--text)' : lineVariable(colourOf(line, index));
        const button = h('button', { type: 'button', 'aria-pressed': 'true' }, swatch, line.label);
        button.addEventListener('click', () => {
            if (hidden.has(index)) hidden.delete(index);
            else if (hidden.size < chart.lines.length - 1) hidden.add(index);
            button.setAttribute('aria-pressed', String(!hidden.has(index)));
            redraw();
        });
        return button;
    });
    return h('div', { class: 'legend', role: 'group', 'aria-label': 'Lines' }, ...items);
}

/** Draws into the host once it is near, and whenever its width changes; gives what redraws. */
function plotter(chart: Chart, host: HTMLElement, hidden: Set<number>): () => void {
    let plot: uPlot | null = null;
    let width = 0;
    const draw = () => {
        if (width <= 0) return;
        plot?.destroy();
        const { options, data } = plan(chart, hidden, width);
        plot = new uPlot(options, data, host);
    };
    const fit = () => {
        const now = Math.floor(host.clientWidth);
        if (now === width || now === 0) return;
        width = now;
        // Labels have other places in another width.
        if (plot && !chart.markers) plot.setSize({ width, height: chart.height ?? usualHeight });
        else draw();
    };
    waiting.set(host, { draw, fit });
    approaching.observe(host);
    host.addEventListener('focus', () => show(host));
    host.addEventListener('keydown', (event) => {
        if (plot && stepCursor(plot, event.key)) event.preventDefault();
    });
    host.addEventListener('blur', () => plot?.setCursor({ left: -10, top: -10 }));
    return draw;
}

function stepCursor(plot: uPlot, key: string): boolean {
    const last = plot.data[0].length - 1;
    const at = plot.cursor.idx ?? null;
    const next: Record<string, number> = {
        ArrowLeft: at === null ? last : Math.max(0, at - 1),
        ArrowRight: at === null ? 0 : Math.min(last, at + 1),
        Home: 0,
        End: last,
    };
    const index = next[key];
    if (index === undefined) return false;
    plot.setCursor({ left: plot.valToPos(plot.data[0][index]!, 'x'), top: 20 });
    return true;
}

type Values = (number | null | undefined)[];

/** Running sums from the first shown line up; overlays stay what they are. */
function stack(chart: Chart, hidden: Set<number>): Values[] {
    const sums: (number | null)[] = chart.x.map(() => null);
    return chart.lines.map((line, index) => {
        if (line.overlay || hidden.has(index)) return line.values;
        return line.values.map((value, i) => {
            if (typeof value === 'number') sums[i] = (sums[i] ?? 0) + value;
            return sums[i];
        });
    });
}

function plan(
    chart: Chart,
    hidden: Set<number>,
    width: number,
): { options: uPlot.Options; data: uPlot.AlignedData } {
    const stacked = chart.style === 'stack';
    let values: Values[] = stacked ? stack(chart, hidden) : chart.lines.map((l) => l.values);
    if (chart.yLog)
        values = values.map((vs) => vs.map((v) => (typeof v === 'number' && v <= 0 ? null : v)));
    const shown = chart.lines.map((_, i) => i).filter((i) => !hidden.has(i));
    const layers = shown.filter((i) => !chart.lines[i]!.overlay);
    const bands = stacked
        ? layers
              .slice(1)
              .map((upper, k) => ({ series: [upper + 1, layers[k]! + 1] as [number, number] }))
        : [];
    const options: uPlot.Options = {
        width,
        height: chart.height ?? usualHeight,
        legend: { show: false },
        padding: [8 + labelHeight * markerRows(chart, width), rightPadding, 0, 0],
        series: [{}, ...chart.lines.map((line, i) => seriesOf(chart, line, i, !hidden.has(i)))],
        bands,
        scales: { x: xScale(chart), y: yScale(chart) },
        axes: [xAxis(chart), yAxis(chart)],
        cursor: {
            y: false,
            drag: { x: true, y: false },
            points: { size: 7 },
            move: (u, left, top) => [onPoint(u, chart, left), top],
            ...(chart.sync ? { sync: { key: chart.sync } } : {}),
        },
        hooks: {
            drawAxes: [(u) => drawWarmup(u, chart), (u) => drawBand(u, chart)],
            draw: [(u) => drawWhiskers(u, chart, hidden), (u) => drawMarkers(u, chart)],
        },
        plugins: [tooltip((index) => rows(chart, hidden, index))],
    };
    return { options, data: [chart.x, ...values] as uPlot.AlignedData };
}

/** The place of the value that is nearest, or of a histogram the bin: what the tooltip tells of. */
function onPoint(u: uPlot, chart: Chart, left: number): number {
    // Of charts that share a cursor, only that under the pointer has it on one of its own values.
    if (left < 0 || !u.over.matches(':hover')) return left;
    let index = u.posToIdx(left);
    const place = () => u.valToPos(u.data[0][index]!, 'x');
    if (chart.style === 'steps' && index > 0 && place() > left) index -= 1;
    const at = place();
    return at >= 0 && at <= u.over.clientWidth ? at : left;
}

/** How many rows the labels of the markers need above the plot. */
function markerRows(chart: Chart, width: number): number {
    const { markers = [], x } = chart;
    if (markers.length === 0) return 0;
    const [low, high] = [Math.log(x[0]! / logMargin), Math.log(x[x.length - 1]! * logMargin)];
    const [left, right] = [yAxisSize, width - rightPadding];
    const labels = markers.map(({ at, label }) => {
        const part = chart.xLog ? (Math.log(at) - low) / (high - low) : at / x[x.length - 1]!;
        return { at: left + part * (right - left), width: label.length * 6.6 };
    });
    return 1 + Math.max(...labelPlaces(labels, left, right).map(({ row }) => row));
}

function rows(
    chart: Chart,
    hidden: Set<number>,
    index: number,
): { head: string; rows: TooltipRow[] } {
    const at = chart.x[index] ?? null;
    const name = chart.xLabel ? `${chart.xLabel} ` : '';
    const lines = chart.lines
        .map((line, i) => ({ line, i }))
        .filter(({ line, i }) => !hidden.has(i) && line.values[index] !== undefined)
        .map(({ line, i }) => {
            const value = line.values[index] ?? null;
            const colour = line.overlay ? 'var(--text)' : lineVariable(colourOf(line, i));
            const [low, high] = [line.low?.[index], line.high?.[index]];
            const interval =
                typeof low === 'number' && typeof high === 'number'
                    ? ` (${format(low, chart.unit)} to ${format(high, chart.unit)})`
                    : '';
            return {
                colour,
                label: line.label,
                value: format(value, chart.unit) + interval,
            };
        });
    return {
        head: [`${name}${at === null ? '' : tick(at, chart.xUnit)}`, timeOf(chart, at)].filter(Boolean).join(' · '),
        rows: chart.style === 'stack' ? lines.reverse() : lines,
    };
}

const timeOf = ({ clock }: Chart, at: number | null) =>
    typeof clock === 'number' && at !== null ? `${timeOfDay(clock + at * 1000)} UTC` : '';

function seriesOf(chart: Chart, line: Line, index: number, show: boolean): uPlot.Series {
    const base: uPlot.Series = { label: line.label, show, spanGaps: chart.gaps === false };
    if (line.overlay)
        return { ...base, stroke: styleColour('text'), width: 1.5, points: { show: false } };
    const stroke = lineColour(colourOf(line, index));
    const dash = dashOf(line, index);
    const lined: uPlot.Series = { ...base, stroke, width: 1.75, ...(dash ? { dash } : {}) };
    switch (chart.style) {
        case 'stack':
            return { ...lined, width: 1, fill: areaColour(colourOf(line, index), 0.45), points: { show: false } };
        case 'steps':
            return {
                ...lined,
                width: 1.25,
                fill: areaColour(colourOf(line, index), 0.18),
                paths: uPlot.paths.stepped!({ align: 1 }),
                points: { show: false },
            };
        case 'points':
            return { ...lined, points: { show: true, size: 7, fill: stroke, stroke } };
        default:
            // A line needs two values side by side: where there are few, each is a point, too.
            return { ...lined, points: { show: line.values.length <= 12, size: 6 } };
    }
}

function xScale({ x, xRange, xLog }: Chart): uPlot.Scale {
    // Room at the first and the last point, but not while the reader zooms in.
    const range = (u: uPlot, min: number, max: number): [number, number] => {
        if (min !== u.data[0][0] || max !== u.data[0][u.data[0].length - 1]) return [min, max];
        if (xLog) return [min / logMargin, max * logMargin];
        return [Math.min(min, xRange![0]), Math.max(max, xRange![1])];
    };
    if (xLog) return { time: false, distr: 3, range };
    if (xRange) return { time: false, range };
    return { time: false, ...(x.length === 1 ? { range: [x[0]! - 1, x[0]! + 1] } : {}) };
}

function yScale(chart: Chart): uPlot.Scale {
    const ends = chart.lines
        .flatMap((l) => [...(l.low ?? []), ...(l.high ?? [])])
        .filter((v): v is number => typeof v === 'number');
    if (chart.yLog) {
        const positive = ends.filter((v) => v > 0);
        return {
            distr: 3,
            range: (_u, min, max) =>
                min === null || max === null
                    ? logRange(min, max)
                    : logRange(Math.min(min, ...positive), Math.max(max, ...positive)),
        };
    }
    return {
        range: (_u, min, max) => {
            if (chart.yFree && min !== null && max !== null) {
                const [low, high] = [Math.min(min, ...(chart.band ?? [])), Math.max(max, ...(chart.band ?? []))];
                const room = (high - low) * 0.08 || 1;
                return [low - room, high + room];
            }
            const least = Math.min(min ?? 0, ...ends);
            const most = Math.max(max ?? 0, ...ends);
            const high = chart.yMax ?? (most <= 0 ? 1 : most * 1.06);
            return [least >= 0 ? 0 : least * 1.05, Math.max(high, most)];
        },
    };
}

function axis(): uPlot.Axis {
    const grid = styleColour('grid');
    return {
        font,
        stroke: styleColour('muted'),
        grid: { stroke: grid, width: 1 },
        ticks: { stroke: grid, width: 1, size: 4 },
        gap: 6,
    };
}

const ticked = (unit: string) => (_u: uPlot, splits: number[]) => splits.map((v) => tick(v, unit));

/** Ticks of a log axis; drawn where they are, none left out. */
function logarithmic(base: uPlot.Axis, unit: string, most?: number): uPlot.Axis {
    return {
        ...base,
        // By default one for each 60 pixels of a horizontal axis.
        splits: (u, _axis, min, max) => logTicks(min, max, most ?? Math.max(2, (u.width - 100) / 55)),
        filter: (_u, splits) => splits,
        values: ticked(unit),
    };
}

function xAxis(chart: Chart): uPlot.Axis {
    const base: uPlot.Axis = { ...axis(), size: 34, space: 64 };
    const ticks = chart.xTicks;
    if (ticks)
        return { ...base, splits: () => ticks, filter: (_u, splits) => splits, values: ticked(chart.xUnit) };
    if (chart.xLog) return logarithmic(base, chart.xUnit);
    const { clock } = chart;
    if (typeof clock !== 'number' || !chart.xRange) return { ...base, values: ticked(chart.xUnit) };
    // The time of day below the seconds, where it is another one.
    const told = (v: number, i: number, all: number[]) => {
        const time = timeOfDay(clock + v * 1000);
        const same = i > 0 && time === timeOfDay(clock + all[i - 1]! * 1000);
        return same ? tick(v, chart.xUnit) : `${tick(v, chart.xUnit)}\n${time}`;
    };
    return { ...base, size: 48, values: (_u, splits) => splits.map(told) };
}

function yAxis(chart: Chart): uPlot.Axis {
    const base: uPlot.Axis = { ...axis(), size: yAxisSize, space: 34 };
    if (chart.yLog) {
        // One tick for each 30 pixels.
        const room = Math.floor((chart.height ?? usualHeight) / 30);
        return logarithmic(base, chart.unit, Math.min(7, room));
    }
    return { ...base, values: ticked(chart.unit) };
}
