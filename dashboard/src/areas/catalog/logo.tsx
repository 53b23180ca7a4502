import { useState } from 'react';
import { logoOf } from './queries';
import classes from './logo.module.css';

/** A package's logo, or its initials. An image cannot run scripts, whatever its author put into it. */
export function Logo({ id, name, size = 44 }: { id: string; name: string; size?: number }) {
  const [missing, setMissing] = useState(false);
  const initials = name
    .split(/[\s._-]+/)
    .filter(Boolean)
    .slice(0, 2)
    .map((word) => [...word][0]?.toUpperCase())
    .join('');
  const hue = [...name].reduce((sum, letter) => (sum * 31 + (letter.codePointAt(0) ?? 0)) % 360, 7);
  if (missing || !id) {
    return (
      <span className={classes.initials} style={{ width: size, height: size, fontSize: size * 0.38, backgroundColor: `hsl(${hue} 38% 34%)` }} aria-hidden>
        {initials}
      </span>
    );
  }
  return <img className={classes.logo} src={logoOf(id)} width={size} height={size} alt="" loading="lazy" onError={() => setMissing(true)} />;
}
