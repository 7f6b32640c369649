// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The dyno authors
//
// Bundles the page into a folder (scripts/page says which): report.js, report.css and hashes.json.
// The hashes go into the page's content security policy; they are made here so that writing a report
// needs no crypto.

import { createHash } from 'node:crypto';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { build } from 'esbuild';

const limitBytes = 170_000;

/** What uPlot can do and this page does not ask for: its own clock times and legend, bars, splines, asinh. */
const unused = [
    [/\(paths\.(bars|spline) +=.*/g, ''],
    [/uPlot\.(fmtDate|tzDate|rangeAsinh|addGap|clipGaps) +=.*/g, ''],
    [/const _(timeAxisSplits|timeAxisVals|timeSeriesVal|fmtDate|tzDate) +=.*/g, 'const _$1 = null;'],
    [/time(AxisVals|AxisVal|SeriesVal)\(_tzDate, [^?:]*?\) (?=:)/g, 'null '],
    [/genTimeStuffs\((1|1e-3)\)/g, '[]'],
    [/\b(\w+\.)?distr == 4\b/g, 'false'],
    [/const showLegend = .*/g, ''],
    [/\bshowLegend\b/g, 'false'],
];

const smaller = {
    name: 'smaller uPlot',
    setup(build) {
        const without = (text, [what, instead]) => {
            if (text.search(what) < 0) throw new Error(`uPlot has changed: ${what} is not in it`);
            return text.replace(what, instead);
        };
        build.onLoad({ filter: /uPlot\.esm\.js$/ }, ({ path }) => ({
            contents: unused.reduce(without, readFileSync(path, 'utf8')),
        }));
        // The page has legends of its own.
        build.onLoad({ filter: /uPlot\.min\.css$/ }, ({ path }) => ({
            contents: without(readFileSync(path, 'utf8'), [/[^{}]*\.u-(legend|inline|title|value|series)[^{}]*\{[^}]*\}/g, '']),
            loader: 'css',
        }));
    },
};
const here = dirname(fileURLToPath(import.meta.url));
const target = process.argv[2] ?? join(here, '..', 'priv', 'report');

mkdirSync(target, { recursive: true });
await build({
    entryPoints: { report: join(here, 'src', 'main.ts') },
    outdir: target,
    bundle: true,
    minify: true,
    format: 'iife',
    target: ['es2022'],
    charset: 'ascii',
    legalComments: 'inline',
    plugins: [smaller],
    logLevel: 'warning',
});

const hashes = {};
let bytes = 0;
for (const kind of ['js', 'css']) {
    const text = readFileSync(join(target, `report.${kind}`));
    bytes += text.length;
    hashes[kind] = `sha256-${createHash('sha256').update(text).digest('base64')}`;
}
writeFileSync(join(target, 'hashes.json'), `${JSON.stringify(hashes)}\n`);

console.log(`the report's page: ${(bytes / 1000).toFixed(1)} kB of JavaScript and CSS`);
if (bytes > limitBytes) {
    console.error(`The page's code is larger than its limit of ${limitBytes / 1000} kB.`);
    process.exit(1);
}
