// An allocation's steps as filters: who was left after each, and who was removed and why.
import { ApiError, call } from '~/api/client';
import type { Image } from './queries';

export interface Step {
  step: string;
  remaining: string[];
  reasons?: Record<string, string>;
}

export interface Explanation {
  /** The server's uuid; none when nothing fits. */
  chosen: string | undefined;
  problem: string;
  steps: Step[];
  /** Servers that no filter saw, and why. */
  unseen: Record<string, string>;
}

export interface Filter {
  key: string;
  name: string;
  left: string[];
  removed: { reason: string; servers: string[] }[];
  /** What holds for every server, or why the filter did nothing. */
  remark: string;
}

export interface Wanted {
  owner: string;
  image: Image | undefined;
  memory: number;
  disk: number;
  vcpus: number;
}

// Nothing is reserved for it, so any number will do.
const NOBODY = '00000000-0000-4000-8000-000000000000';

const VM_IMAGES = new Set(['vm', 'zvol', 'qcow2']);

/** Asks where a machine would go. A refusal is an explanation, too. */
export async function explain({ owner, image, memory, disk, vcpus }: Wanted): Promise<Explanation> {
  const brand = VM_IMAGES.has(image?.type ?? '') ? 'kvm' : 'lx';
  const vm = { vm_uuid: NOBODY, uuid: NOBODY, owner_uuid: owner, alias: 'explained', brand, image_uuid: image?.uuid, ram: memory, max_physical_memory: memory, quota: disk, cpu_cap: vcpus * 100, vcpus };
  try {
    const placed = await call<{ server: { uuid: string } | null; steps: Step[] }>('POST', '/compute/allocate', { vm, image: { uuid: image?.uuid, type: image?.type }, nic_tags: [], explain: true });
    return { chosen: placed.server?.uuid, problem: '', steps: placed.steps, unseen: {} };
  } catch (error) {
    if (!(error instanceof ApiError) || error.status !== 409) throw error;
    const { steps = [], not_considered: unseen = {} } = error.more as { steps?: Step[]; not_considered?: Record<string, string> };
    return { chosen: undefined, problem: error.message, steps, unseen };
  }
}

/** What each filter left and removed; servers removed for one reason are together. */
export function filtersOf({ steps, unseen }: Explanation): Filter[] {
  const filters: Filter[] = [];
  let before: string[] | undefined;
  for (const { step, remaining, reasons = {} } of steps) {
    const left = new Set(remaining);
    const removed = new Map<string, string[]>();
    const gone = before ? before.filter((one) => !left.has(one)) : Object.keys(unseen);
    for (const server of gone) {
      const reason = reasons[server] ?? unseen[server] ?? '';
      removed.set(reason, [...(removed.get(reason) ?? []), server]);
    }
    filters.push({
      key: `${filters.length} ${step}`,
      name: step,
      left: remaining,
      removed: [...removed].map(([reason, servers]) => ({ reason, servers })),
      remark: [reasons['skip'], reasons['*']].filter(Boolean).join('; '),
    });
    before = remaining;
  }
  return filters;
}
