import { Fragment } from 'react';

/** The full name of a class or package; where the line is too short it ends after a dot, not inside a word. */
export function Fqn({ name }: { name: string }) {
  return (
    <>
      {name.split('.').map((part, place, all) => (
        <Fragment key={place}>
          {part}
          {place < all.length - 1 && (
            <>
              .<wbr />
            </>
          )}
        </Fragment>
      ))}
    </>
  );
}
