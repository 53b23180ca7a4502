import { describe, expect, it } from 'vitest';
import { fileOf, safeName } from './download';

describe('fileOf', () => {
  it('has no file for nothing', () => {
    expect(fileOf({ result: null })).toBeNull();
    expect(fileOf({})).toBeNull();
  });

  it('makes JSON of a value, and says when it is an exception', () => {
    expect(fileOf({ result: { a: 1 } })).toMatchObject({ name: 'result.json', type: 'application/json', content: '{\n  "a": 1\n}' });
    expect(fileOf({ isException: true, result: 'no' })?.name).toBe('exception.json');
    expect(fileOf({ result: false })?.content).toBe('false');
  });

  it('decodes io.murano.File', () => {
    const made = fileOf({ result: { '?': { type: 'io.murano.File/1.0' }, filename: '../../key.pem', base64Content: btoa('héllo'), mimeType: 'text/html' } });
    expect(made?.name).toBe('key.pem');
    expect(made?.type).toBe('text/html');
    expect([...(made?.content as Uint8Array)]).toEqual([...'héllo'].map((one) => one.codePointAt(0)));
  });
});

describe('safeName', () => {
  it('keeps no folders, hidden names or odd characters', () => {
    expect(safeName('C:\\x\\a b.txt')).toBe('a b.txt');
    expect(safeName('.bashrc')).toBe('bashrc');
    expect(safeName('<img>.svg')).toBe('_img_.svg');
    expect(safeName('..')).toBe('action_result_file');
    expect(safeName(undefined)).toBe('action_result_file');
  });
});
