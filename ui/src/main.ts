// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The dyno authors
//
// Reads the recording out of the page and shows it.

import 'uplot/dist/uPlot.min.css';
import './style/base.css';
import './style/summary.css';
import './style/table.css';
import './style/chart.css';
import './style/plots.css';
import './style/node.css';
import './style/print.css';
import { page } from './page';
import { read } from './recording';
import { startTheme } from './theme';

function start(): void {
    const data = document.getElementById('recording');
    const findings = document.getElementById('findings');
    const root = document.getElementById('page');
    if (!data || !root) return;
    startTheme();
    try {
        root.replaceChildren(...page(read(data.textContent ?? '', findings?.textContent ?? '[]')));
    } catch (error) {
        // Better a sentence than an empty page; the error still reaches the console.
        root.textContent =
            `The report could not be drawn (${String(error)}). ` +
            'The recording is unharmed: it is in this file, as JSON.';
        throw error;
    }
}

start();
