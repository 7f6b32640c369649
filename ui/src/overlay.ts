// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The dyno authors
//
// What a chart's canvas has besides lines: the warm-up, the band in which differences do not
// matter, intervals and markers.

import type uPlot from 'uplot';
import type { Chart } from './chart';
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
            const [bottom, top] = [u.valToPos(low, 'y', true), u.valToPos(high, 'y', true)];
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

export function drawMarkers(u: uPlot, chart: Chart): void {
    const { left, top, width, height: tall } = u.bbox;
    const ratio = devicePixelRatio || 1;
    u.ctx.save();
    u.ctx.font = font.replace('12px', `${11 * ratio}px`);
    u.ctx.fillStyle = u.ctx.strokeStyle = styleColour('text');
    u.ctx.lineWidth = ratio;
    u.ctx.setLineDash([3 * ratio, 3 * ratio]);
    u.ctx.textAlign = 'left';
    u.ctx.textBaseline = 'alphabetic';
    (chart.markers ?? []).forEach((marker, index) => {
        const x = u.valToPos(marker.at, 'x', true);
        if (x < left || x > left + width) return;
        u.ctx.beginPath();
        u.ctx.moveTo(x, top);
        u.ctx.lineTo(x, top + tall);
        u.ctx.stroke();
        // Each label one line lower, to the left where it would leave the plot.
        const wide = u.ctx.measureText(marker.label).width + 4 * ratio;
        const start = x + wide + 4 * ratio > left + width ? x - wide - 2 * ratio : x + 4 * ratio;
        const base = top + (12 + 14 * index) * ratio;
        // A rim in the page's colour keeps the label readable over lines.
        u.ctx.save();
        u.ctx.setLineDash([]);
        u.ctx.lineWidth = 4 * ratio;
        u.ctx.lineJoin = 'round';
        u.ctx.strokeStyle = styleColour('page');
        u.ctx.strokeText(marker.label, start, base);
        u.ctx.restore();
        u.ctx.fillText(marker.label, start, base);
    });
    u.ctx.restore();
}
