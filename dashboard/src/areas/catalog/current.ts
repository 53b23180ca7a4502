// Which environment applications are added to (dashboard-and-cli.md A3): the one that was chosen last, as long as it can take them.

const KEY = 'vetro.environment.';

export const rememberCurrent = (projectId: string, environmentId: string) => localStorage.setItem(KEY + projectId, environmentId);

/** The last chosen of those given, else the first. */
export function currentOf(projectId: string, environments: { id: string }[]): string | undefined {
  const stored = localStorage.getItem(KEY + projectId);
  return (environments.find((one) => one.id === stored) ?? environments[0])?.id;
}
