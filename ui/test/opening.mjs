// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The dyno authors
//
// How long a browser needs to open a page: from the navigation until the first frame after the
// page's script is painted, and the next input would be answered. The median of several loads, each
// in a context of its own; and the processor time of the page's main thread, which says the same on a
// machine that does other things, too. As a program: node opening.mjs PAGE [LOADS], with
// $DYNO_BROWSER; test/support/dyno_large_recording.erl makes a page worth measuring.

import { pathToFileURL } from 'node:url';
import { chromium } from 'playwright-core';

export function launch() {
    return chromium.launch({
        executablePath: process.env.DYNO_BROWSER,
        args: [
            '--disable-background-networking',
            '--disable-component-update',
            '--disable-sync',
            '--no-first-run',
            ...(process.getuid?.() === 0 ? ['--no-sandbox'] : []),
        ],
    });
}

async function once(browser, url) {
    const context = await browser.newContext({ viewport: { width: 1280, height: 900 } });
    const page = await context.newPage();
    const session = await context.newCDPSession(page);
    await session.send('Performance.enable', { timeDomain: 'threadTicks' });
    await page.goto(url, { waitUntil: 'load' });
    const ms = await page.evaluate(
        () =>
            new Promise((done) =>
                // The second frame begins after the first was painted, charts in sight included.
                requestAnimationFrame(() => requestAnimationFrame(() => done(performance.now()))),
            ),
    );
    const { metrics } = await session.send('Performance.getMetrics');
    const cpu = metrics.find((m) => m.name === 'TaskDuration').value * 1000;
    await context.close();
    return { ms, cpu };
}

const middle = (all) => [...all].sort((a, b) => a - b)[all.length >> 1];

/** Medians in milliseconds, and all wall times in the order in which they were seen. */
export async function opening(browser, url, loads = 5) {
    const all = [];
    for (let load = 0; load < loads; load++) all.push(await once(browser, url));
    return {
        median: middle(all.map(({ ms }) => ms)),
        cpu: middle(all.map(({ cpu }) => cpu)),
        all: all.map(({ ms }) => ms),
    };
}

if (process.argv[1]?.endsWith('opening.mjs')) {
    const browser = await launch();
    const { median, cpu, all } = await opening(
        browser,
        pathToFileURL(process.argv[2]).href,
        Number(process.argv[3] ?? 7),
    );
    await browser.close();
    const seen = all.map((ms) => ms.toFixed(0)).join(', ');
    console.log(
        `${median.toFixed(0)} ms, the median of ${all.length} loads (${seen}); ` +
            `${cpu.toFixed(0)} ms of processor time in the page's main thread`,
    );
}
