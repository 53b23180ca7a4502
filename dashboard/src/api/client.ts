// The typed way to the faces. Types come from their OpenAPI documents (generated/): a changed face breaks the build.
import createClient, { type Middleware } from 'openapi-fetch';
import type { paths as CatalogPaths, components as CatalogComponents } from './generated/catalog';
import type { paths as ComputePaths, components as ComputeComponents } from './generated/compute';
import type { components as DashboardComponents, paths as DashboardPaths } from './generated/dashboard';
import type { paths as IdentityPaths } from './generated/identity';

export type Catalog = CatalogComponents['schemas'];
export type Compute = ComputeComponents['schemas'];
export type DashboardSession = DashboardComponents['schemas']['DashboardSession'];

export const API = '/dashboard/api';
export const CSRF = { 'X-Vetro-Dashboard': '1' } as const;

/** An answer that is not a success, or no answer (`status` 0). */
export class ApiError extends Error {
  constructor(
    readonly status: number,
    readonly title: string,
    message: string,
    /** The error object of the body: some faults say more (`environments`, `sessions`, …). */
    readonly more: Record<string, unknown> = {},
    readonly requestId = '',
  ) {
    super(message);
  }
}

type Listener = () => void;
const expired = new Set<Listener>();

/** Be told when an answer says that the session is over. */
export function onSessionOver(listener: Listener): () => void {
  expired.add(listener);
  return () => expired.delete(listener);
}

/** The error of an answer; its body is read. */
export async function errorOf(response: Response): Promise<ApiError> {
  let fault: Record<string, unknown> = {};
  try {
    const body = (await response.clone().json()) as { error?: Record<string, unknown> } & Record<string, unknown>;
    fault = body.error ?? body;
  } catch {
    // Not JSON, as from a proxy in between: the status has to do.
  }
  const said = typeof fault['message'] === 'string' ? fault['message'] : response.statusText || `HTTP ${response.status}`;
  // The compute service says apart which fields are wrong.
  const wrong = Array.isArray(fault['errors']) ? (fault['errors'] as { field?: string; message?: string }[]).filter((one) => one?.field) : [];
  const message = [said, wrong.map((one) => `${one.field}: ${one.message}`).join('; ')].filter(Boolean).join(': ');
  const title = typeof fault['title'] === 'string' ? fault['title'] : response.statusText;
  return new ApiError(response.status, title, message, fault, response.headers.get('x-openstack-request-id') ?? '');
}

function toldIfOver(response: Response) {
  if (response.status === 401) for (const listener of expired) listener();
}

const guard: Middleware = {
  onRequest({ request }) {
    request.headers.set('X-Vetro-Dashboard', '1');
    return request;
  },
  async onResponse({ response, schemaPath }) {
    if (response.ok) return undefined;
    if (!schemaPath.startsWith('/api/session')) toldIfOver(response);
    throw await errorOf(response);
  },
  onError() {
    return new ApiError(0, 'offline', 'The service does not answer');
  },
};

function client<Paths extends object>(base: string) {
  const made = createClient<Paths>({ baseUrl: base });
  made.use(guard);
  return made;
}

export const catalogApi = client<CatalogPaths>(API);
export const computeApi = client<ComputePaths>(`${API}/compute`);
export const identityApi = client<IdentityPaths>(`${API}/identity`);
export const sessionApi = client<DashboardPaths>('/dashboard');

/** The data of an answer; errors were thrown before. */
export async function data<T>(answer: Promise<{ data?: T | undefined; error?: unknown }>): Promise<T> {
  return (await answer).data as T;
}

/** A call that the documents do not describe precisely enough for a typed one (uploads, free JSON). */
export async function call<T>(method: string, path: string, body?: BodyInit | object, headers: Record<string, string> = {}): Promise<T> {
  const free = body !== undefined && (body instanceof FormData || body instanceof Blob || typeof body === 'string');
  const init: RequestInit = { method, headers: { ...CSRF, ...(free || body === undefined ? {} : { 'Content-Type': 'application/json' }), ...headers } };
  if (body !== undefined) init.body = free ? (body as BodyInit) : JSON.stringify(body);
  let response: Response;
  try {
    response = await fetch(`${API}${path}`, init);
  } catch {
    throw new ApiError(0, 'offline', 'The service does not answer');
  }
  if (!response.ok) {
    toldIfOver(response);
    throw await errorOf(response);
  }
  const text = await response.text();
  return (text ? JSON.parse(text) : undefined) as T;
}
