// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The dyno authors
//
// What the page shows now: the recording, and the run and the node chosen in it.

import type { Recording, Run } from './recording';
import type { Child } from './dom';

export interface View {
    recording: Recording;
    run: Run | null;
    /** One of the run's target nodes; null where there is none to choose. */
    node: string | null;
}

export interface Section {
    id: string;
    title: string;
    /** Its name in the bar, where room is short. */
    short?: string;
    /** Drawn again when another run or node is chosen. */
    scope: 'recording' | 'run';
    /** Nothing at all leaves the section out; an empty part says why it is empty. */
    render: (view: View) => Child[];
}
