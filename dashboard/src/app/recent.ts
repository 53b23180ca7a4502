// Which packages were used or added last since signing in (dashboard-and-cli.md A3); this tab remembers it.
const KEY = 'vetro.recent';
const KEPT = 3;

type Recent = Record<string, string[]>;

function read(): Recent {
  try {
    return JSON.parse(sessionStorage.getItem(KEY) ?? '{}') as Recent;
  } catch {
    return {};
  }
}

/** Ids of packages, the last one first. */
export const recentOf = (project: string): string[] => read()[project]?.slice(0, KEPT) ?? [];

export function remember(project: string, packageId: string) {
  const known = read();
  sessionStorage.setItem(KEY, JSON.stringify({ ...known, [project]: [packageId, ...recentOf(project).filter((one) => one !== packageId)].slice(0, KEPT) }));
}

export const forgetRecent = () => sessionStorage.removeItem(KEY);
