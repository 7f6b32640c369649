// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The dyno authors

declare module '*.css';
