// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The dyno authors
//
// Light and dark: the system's wish until the reader chooses, then the reader's choice, kept where
// the browser allows pages from a disk to keep anything.

import { h } from './dom';

export type Theme = 'light' | 'dark';

const key = 'dyno-theme';
const system = matchMedia('(prefers-color-scheme: dark)');
const listeners: (() => void)[] = [];

function stored(): Theme | null {
    try {
        const value = localStorage.getItem(key);
        return value === 'light' || value === 'dark' ? value : null;
    } catch {
        return null;
    }
}

function store(theme: Theme): void {
    try {
        localStorage.setItem(key, theme);
    } catch {
        // Without storage the choice lasts as long as the page.
    }
}

let chosen: Theme | null = stored();
let printing = false;

export function theme(): Theme {
    if (printing) return 'light';
    return chosen ?? (system.matches ? 'dark' : 'light');
}

function apply(): void {
    document.documentElement.dataset.theme = theme();
    for (const listener of listeners) listener();
}

export function onThemeChange(listener: () => void): void {
    listeners.push(listener);
}

/** Paper is light whatever the screen is. */
function print(now: boolean): void {
    printing = now;
    apply();
}

export function themeButton(): HTMLElement {
    const button = h('button', { type: 'button', class: 'theme', id: 'theme' });
    const label = () => {
        const other = theme() === 'dark' ? 'Light' : 'Dark';
        button.textContent = other;
        button.title = `Show the page in ${other.toLowerCase()} colours`;
    };
    button.addEventListener('click', () => {
        chosen = theme() === 'dark' ? 'light' : 'dark';
        store(chosen);
        apply();
    });
    onThemeChange(label);
    label();
    return button;
}

export function startTheme(): void {
    system.addEventListener('change', apply);
    addEventListener('beforeprint', () => print(true));
    addEventListener('afterprint', () => print(false));
    apply();
}
