import { useSession } from '~/app/session';
import { useTexts } from '~/i18n';
import { messages } from './messages';

const MIB = 2 ** 20;

/** What is said of a file that the service would refuse for its size, before it is sent; empty: it is small enough. */
export function useTooLarge() {
  const t = useTexts(messages);
  const { settings } = useSession();
  return (file: File) => (file.size > settings.package_mib * MIB ? t('tooLarge', { size: (Math.ceil((10 * file.size) / MIB) / 10).toString(), limit: settings.package_mib }) : '');
}
