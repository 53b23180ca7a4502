// Environments that are made for an application (dashboard-and-cli.md A3).
import { ApiError, catalogApi, data } from '~/api/client';

/** The next free name of quick environments; somebody else may have it a moment later. */
export function nextName(taken: Iterable<string>): string {
  const numbers = [...taken].flatMap((name) => /^quick-env-(\d+)$/.exec(name)?.[1] ?? []).map(Number);
  return `quick-env-${Math.max(0, ...numbers) + 1}`;
}

const TRIES = 20;

/** Makes an environment; without a name it gets the next free one, and the one after that when somebody was quicker. */
export async function makeEnvironment(name: string, known: Iterable<string>): Promise<{ id: string; name: string }> {
  const taken = new Set(known);
  for (let tries = 1; ; tries += 1) {
    const tried = name.trim() || nextName(taken);
    try {
      return await data(catalogApi.POST('/v1/environments', { body: { name: tried } }));
    } catch (error) {
      if (name.trim() || !(error instanceof ApiError) || error.status !== 409 || tries === TRIES) throw error;
      taken.add(tried);
    }
  }
}
