import { describe, expect, it } from 'vitest';
import { filterQuery } from './queries';

describe('filterQuery', () => {
  it('searches words, or names a package exactly, and keeps the type beside it', () => {
    expect(filterQuery({ text: 'C++', exact: false, type: '' })).toEqual({ search: 'C++' });
    expect(filterQuery({ text: 'Apache', exact: true, type: 'Library' })).toEqual({ name: 'Apache', type: 'Library' });
    expect(filterQuery({ text: '', exact: true, type: '' })).toEqual({});
    expect(filterQuery({ text: '', exact: false, type: '', own: true })).toEqual({ owned: 'true' });
  });
});
