import { IconDisc } from '@tabler/icons-react';
import { useSuspenseQuery } from '@tanstack/react-query';
import { useTexts } from '~/i18n';
import { Empty } from '~/ui/page';
import { When } from '~/ui/when';
import { messages } from './messages';
import { imagesQuery, type Image } from './queries';
import { Rows } from '~/ui/rows';
import { size, State } from './state';

export function Images() {
  const t = useTexts(messages);
  const { data: images } = useSuspenseQuery(imagesQuery);
  if (images.length === 0) {
    return (
      <Empty icon={IconDisc} title={t('noImages')}>
        {t('noImagesText')}
      </Empty>
    );
  }
  const copies = ({ nodes }: Image) => {
    if (!nodes) return null;
    return nodes.coming > 0 ? `${nodes.present} (+${nodes.coming}: ${t('coming', { percent: nodes.percent ?? 0 })})` : String(nodes.present);
  };
  return (
    <Rows
      label={t('images')}
      heads={[t('name'), t('state'), t('kind'), t('size'), t('copies'), t('published')]}
      rows={images.map((one) => ({
        key: one.uuid,
        cells: [one.name, <State key="state" of={one.state} />, one.type, size(one.size), copies(one), <When key="at" at={one.published_at} />],
      }))}
    />
  );
}
