// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The dyno authors
//
// What the reader chose, in the page's address, behind the `#`: `#load?run=16&open=function lists:sort/1`.
// So a link shows what its sender saw, and a reload keeps it. A page on a disk may change no other part
// of its address.

export interface Place {
    section: string;
    chosen: Map<string, string>;
}

/** What stands behind the `#`. */
export function parsed(hash: string): Place {
    const [section = '', query = ''] = hash.replace(/^#/, '').split(/\?(.*)/s);
    return { section, chosen: new Map(new URLSearchParams(query)) };
}

/** As it was parsed, in letters that need no escape where that is possible. */
export function printed({ section, chosen }: Place): string {
    const plain: Record<string, string> = { '%3A': ':', '%2F': '/', '%2C': ',', '%28': '(', '%29': ')' };
    const query = new URLSearchParams([...chosen])
        .toString()
        .replace(/%3A|%2F|%2C|%28|%29/g, (code) => plain[code]!);
    return query === '' ? section : `${section}?${query}`;
}

let place: Place = { section: '', chosen: new Map() };

function write(): void {
    const hash = printed(place);
    if (`#${hash}` !== location.hash) history.replaceState(null, '', `#${hash}`);
}

export const chosen = (name: string): string | null => place.chosen.get(name) ?? null;

/** Remembers a choice; what is chosen from the start needs no place in the address. */
export function choose(name: string, value: string | null): void {
    if (value === null) place.chosen.delete(name);
    else place.chosen.set(name, value);
    write();
}

/** Reads the address, and keeps the choices where it changes: a link of the bar names a section only. */
export function startState(): void {
    place = parsed(location.hash);
    addEventListener('hashchange', () => {
        const now = parsed(location.hash);
        if (now.chosen.size > 0) {
            if (printed(now) !== printed(place)) location.reload();
        } else {
            place.section = now.section;
            write();
        }
    });
}

/** The browser itself does not find a section whose name has choices behind it. */
export function showSection(): void {
    if (place.chosen.size > 0) document.getElementById(place.section)?.scrollIntoView();
}
