// Uploads with progress: fetch tells nothing about what it has sent.
import { API, ApiError, CSRF } from './client';

/** Sends a file as a form; `progress` is told the part that is sent, 0 to 1. */
export function upload<T>(path: string, form: FormData, progress: (part: number) => void, method: 'POST' | 'PUT' = 'POST'): Promise<T> {
  return new Promise((resolve, reject) => {
    const request = new XMLHttpRequest();
    request.open(method, `${API}${path}`);
    for (const [name, value] of Object.entries(CSRF)) request.setRequestHeader(name, value);
    request.upload.onprogress = (event) => event.lengthComputable && progress(event.loaded / event.total);
    request.onerror = () => reject(new ApiError(0, 'offline', 'The service does not answer'));
    request.onload = () => {
      let body: { error?: { message?: string; title?: string } } = {};
      try {
        body = JSON.parse(request.responseText || '{}') as typeof body;
      } catch {
        // Not JSON, as from a proxy in between: the status has to do.
      }
      if (request.status >= 200 && request.status < 300) resolve(body as T);
      else reject(new ApiError(request.status, body.error?.title ?? '', body.error?.message ?? request.statusText, body.error, request.getResponseHeader('x-openstack-request-id') ?? ''));
    };
    request.send(form);
  });
}
