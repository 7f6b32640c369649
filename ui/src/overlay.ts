// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The dyno authors
//
// What a chart's canvas has besides lines: the warm-up, the band in which differences do not
// matter, intervals and markers.

import type uPlot from 'uplot';
import type { Chart } from './chart';
import { labelPlaces } from './labels';
import { lineColour, styleColour } from './palette';

export const font = '12px system-ui, -apple-system, "Segoe UI", Roboto, sans-serif';

/** The interval of each value, as a line with ends. */
export function drawWhiskers(u: uPlot, chart: Chart, hidden: Set<number>): void {
    const ratio = devicePixelRatio || 1;
    u.ctx.save();
    u.ctx.lineWidth = 1.5 * ratio;
    chart.lines.forEach((line, index) => {
        if (hidden.has(index) || !line.low || !line.high) return;
        u.ctx.strokeStyle = lineColour(line.colour ?? index);
        chart.x.forEach((at, i) => {
            const [low, high] = [line.low![i], line.high![i]];
            if (typeof low !== 'number' || typeof high !== 'number') return;
            const x = u.valToPos(at, 'x', true);
            if (x < u.bbox.left || x > u.bbox.left + u.bbox.width) return;
            const edge = u.bbox.top + u.bbox.height;
            // An interval that begins at 0 has no place on a log axis: it goes to the edge.
            const inside = (value: number) =>
                value > 0 || !chart.yLog ? Math.max(u.bbox.top, Math.min(edge, u.valToPos(value, 'y', true))) : edge;
            const [bottom, top] = [inside(low), inside(high)];
            const end = 4 * ratio;
            u.ctx.beginPath();
            u.ctx.moveTo(x - end, top);
            u.ctx.lineTo(x + end, top);
            u.ctx.moveTo(x, top);
            u.ctx.lineTo(x, bottom);
            u.ctx.moveTo(x - end, bottom);
            u.ctx.lineTo(x + end, bottom);
            u.ctx.stroke();
        });
    });
    u.ctx.restore();
}

export function drawBand(u: uPlot, chart: Chart): void {
    if (!chart.band) return;
    const { left, top, width, height: tall } = u.bbox;
    const inside = (value: number) => Math.max(top, Math.min(top + tall, u.valToPos(value, 'y', true)));
    const [bottom, upper] = chart.band.map(inside) as [number, number];
    u.ctx.save();
    u.ctx.globalAlpha = 0.6;
    u.ctx.fillStyle = styleColour('grid');
    u.ctx.fillRect(left, upper, width, bottom - upper);
    u.ctx.restore();
}

export function drawWarmup(u: uPlot, chart: Chart): void {
    const border = chart.warmupBefore;
    const first = chart.x[0];
    if (border === undefined || first === undefined || first >= border) return;
    const { left, top, width, height: tall } = u.bbox;
    const end = Math.min(u.valToPos(border, 'x', true), left + width);
    if (end <= left) return;
    u.ctx.save();
    u.ctx.globalAlpha = 0.5;
    u.ctx.fillStyle = styleColour('grid');
    u.ctx.fillRect(left, top, end - left, tall);
    u.ctx.restore();
}

export const labelHeight = 15;

/** Each marker is a line, its label stands above the plot. */
export function drawMarkers(u: uPlot, chart: Chart): void {
    const { left, top, width, height: tall } = u.bbox;
    const ratio = devicePixelRatio || 1;
    u.ctx.save();
    u.ctx.font = font.replace('12px', `${12 * ratio}px`);
    u.ctx.strokeStyle = styleColour('text');
    u.ctx.lineWidth = ratio;
    u.ctx.textAlign = 'left';
    u.ctx.textBaseline = 'alphabetic';
    const shown = (chart.markers ?? [])
        .map(({ at, label }) => ({
            at: u.valToPos(at, 'x', true),
            label,
            width: u.ctx.measureText(label).width,
        }))
        .filter(({ at }) => at >= left && at <= left + width);
    const places = labelPlaces(shown, left, left + width, 4 * ratio);
    const base = (row: number) => top - (4 + labelHeight * row) * ratio;
    u.ctx.setLineDash([3 * ratio, 3 * ratio]);
    places.forEach(({ start, row }, i) => {
        const { at } = shown[i]!;
        u.ctx.beginPath();
        // Up to its label, beside it where there was room.
        u.ctx.moveTo(at, start > at ? base(row) - 10 * ratio : base(row) + 3 * ratio);
        u.ctx.lineTo(at, top + tall);
        u.ctx.stroke();
    });
    places.forEach(({ start, row }, i) => {
        const { label, width: wide } = shown[i]!;
        u.ctx.fillStyle = styleColour('page');
        u.ctx.fillRect(start, base(row) - 11 * ratio, wide, 14 * ratio);
        u.ctx.fillStyle = styleColour('text');
        u.ctx.fillText(label, start, base(row));
    });
    u.ctx.restore();
}
