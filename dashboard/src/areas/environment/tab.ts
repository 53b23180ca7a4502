// Which part of an environment somebody looked at last (dashboard-and-cli.md A5): environments open there.

const KEY = 'vetro.tab.';
export const TABS = ['components', 'topology', 'history', 'log', 'model'] as const;
export type Tab = (typeof TABS)[number];

const isTab = (text: string | null): text is Tab => TABS.some((one) => one === text);

export function lastTab(userId: string): Tab {
  const stored = localStorage.getItem(KEY + userId);
  return isTab(stored) ? stored : 'components';
}

export const rememberTab = (userId: string, tab: Tab) => localStorage.setItem(KEY + userId, tab);

/** Where an environment opens. One that was never deployed has only components to show. */
export function opensAt(userId: string, { version }: { version: number }) {
  const tab = version === 0 ? 'components' : lastTab(userId);
  return tab === 'components' ? ('/environments/$environmentId' as const) : (`/environments/$environmentId/${tab}` as const);
}
